// Reads the parts of an Oniguruma pattern from left to right: characters, escapes and properties.
#pragma once

#include "services/gateway/text/unicode.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace troupe::text {

class regex_reader {
 public:
  explicit regex_reader(std::string_view source) : source_(source) {}

 protected:
  static constexpr int max_nesting = 64;

  /// A property as items of a class, and whether it is negated.
  struct property_class {
    std::string items;
    bool negated;
  };

  /// @throws text_error with the pattern, `what` and the offset
  [[noreturn]] void refuse(std::string_view what) const;

  bool more() const { return at_ < source_.size(); }

  bool next_is(std::string_view text) const { return source_.substr(at_, text.size()) == text; }

  char take();
  code_point take_character();
  /// Reads `<name>` or `'name'` at the cursor.
  std::string bracketed_name();
  /// Reads \p{Name}, \p{^Name}, \P{Name}; the cursor is after the letter.
  property_class property(char letter);
  /// The character of an escape; the cursor is after the backslash.
  char32_t escaped_character();

  std::string_view source_;
  std::size_t at_ = 0;

 private:
  char32_t hex_digits(int least, int most);
};

} // namespace troupe::text
