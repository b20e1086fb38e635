#pragma once

#include "services/gateway/text/regex_reader.hpp"

#include <string>
#include <vector>

namespace troupe::text {

/// Reads Oniguruma's character classes, which nest and intersect.
class regex_class_reader : public regex_reader {
 public:
  using regex_reader::regex_reader;

 protected:
  /// A bracket class as a PCRE2 pattern that matches one character; the cursor is behind '['.
  std::string character_class(int depth) { return read_class(depth).as_pattern(); }

 private:
  /// A set of characters: plain items of one bracket, or a pattern that matches one character.
  struct char_set {
    std::string items;                 // inside of [...]
    std::vector<std::string> patterns; // alternatives beside the items
    bool negated = false;

    std::string as_pattern() const;
  };

  char_set read_class(int depth);
  /// A shorthand, a character or a range, added to @p set.
  void class_item(char_set& set);
  bool class_shorthand(char_set& set);
  char32_t class_character();
};

} // namespace troupe::text
