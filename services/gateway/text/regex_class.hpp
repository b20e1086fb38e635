// Translates Oniguruma's character classes, which nest and intersect, to PCRE2.
#pragma once

#include "services/gateway/text/regex_reader.hpp"

#include <string>
#include <vector>

namespace troupe::text {

class regex_class_reader : public regex_reader {
 public:
  using regex_reader::regex_reader;

 protected:
  /// Returns a bracket class as a PCRE2 pattern that matches one character; the cursor is after '['.
  std::string character_class(int depth) { return read_class(depth).as_pattern(); }

 private:
  /// A set of characters: items of one bracket, and patterns that match one character.
  struct char_set {
    std::string items;                 // text inside [...]
    std::vector<std::string> patterns; // alternatives beside the items
    bool negated = false;

    std::string as_pattern() const;
  };

  char_set read_class(int depth);
  /// Adds a shorthand, a character or a range to `set`.
  void class_item(char_set& set);
  bool class_shorthand(char_set& set);
  char32_t class_character();
};

} // namespace troupe::text
