#include "services/gateway/text/regex_reader.hpp"

#include "services/gateway/text/regex_characters.hpp"
#include "services/gateway/text/text_error.hpp"

#include <cctype>
#include <utility>

namespace troupe::text {

void regex_reader::refuse(std::string_view what) const {
  throw text_error("regular expression '" + std::string(source_) + "': " + std::string(what) + " at offset "
                   + std::to_string(at_));
}

char regex_reader::take() {
  if (!more())
    refuse("unexpected end");
  return source_[at_++];
}

code_point regex_reader::take_character() {
  if (!more())
    refuse("unexpected end");
  const auto c = decode_at(source_, at_);
  at_ += c.size;
  return c;
}

std::string regex_reader::bracketed_name() {
  const char open = take();
  const auto end = source_.find(open == '<' ? '>' : open, at_);
  if ((open != '<' && open != '\'') || end == std::string_view::npos)
    refuse("a name in brackets is expected");
  const std::string name(source_.substr(at_, end - at_));
  at_ = end + 1;
  return "<" + name + ">";
}

regex_reader::property_class regex_reader::property(char letter) {
  if (take() != '{')
    refuse("'{' is expected after \\p");
  const auto close = source_.find('}', at_);
  if (close == std::string_view::npos)
    refuse("unclosed property");
  std::string name(source_.substr(at_, close - at_));
  bool negated = letter == 'P';
  if (!name.empty() && name.front() == '^') {
    negated = !negated;
    name.erase(0, 1);
  }
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '_' && c != ' ' && c != '-')
      refuse("unknown property");
  at_ = close + 1;
  static constexpr std::pair<std::string_view, std::string_view> long_names[] = {{"Letter", "L"},
                                                                                 {"Mark", "M"},
                                                                                 {"Number", "N"},
                                                                                 {"Punctuation", "P"},
                                                                                 {"Punct", "P"},
                                                                                 {"Symbol", "S"},
                                                                                 {"Separator", "Z"},
                                                                                 {"Other", "C"},
                                                                                 {"Alpha", ""},
                                                                                 {"Space", ""},
                                                                                 {"Word", ""},
                                                                                 {"Digit", "Nd"},
                                                                                 {"Uppercase_Letter", "Lu"},
                                                                                 {"Lowercase_Letter", "Ll"}};
  for (const auto& [long_name, short_name] : long_names) {
    if (name == long_name) {
      if (short_name.empty())
        refuse("property '" + name + "' is not supported");
      name = short_name;
    }
  }
  return {property_items(name), negated};
}

char32_t regex_reader::escaped_character() {
  const auto c = take_character().value;
  switch (c) {
  case 'n':
    return '\n';
  case 'r':
    return '\r';
  case 't':
    return '\t';
  case 'f':
    return '\f';
  case 'v':
    return '\v';
  case 'a':
    return '\a';
  case 'e':
    return 0x1B;
  case '0':
    return 0;
  case 'u':
    return hex_digits(4, 4);
  case 'x':
    if (next_is("{")) {
      ++at_;
      const auto value = hex_digits(1, 8);
      if (take() != '}')
        refuse("'}' is expected");
      return value;
    }
    return hex_digits(1, 2);
  default:
    if (c < 0x80 && std::isalnum(static_cast<int>(c)) != 0)
      refuse("unknown escape");
    return c;
  }
}

char32_t regex_reader::hex_digits(int least, int most) {
  char32_t value = 0;
  int seen = 0;
  while (seen < most && more() && std::isxdigit(static_cast<unsigned char>(source_[at_])) != 0) {
    const char c = take();
    const auto digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    value = value * 16 + static_cast<char32_t>(digit);
    ++seen;
  }
  if (seen < least || value > 0x10FFFF || (value >= 0xD800 && value < 0xE000))
    refuse("not a character");
  return value;
}

} // namespace troupe::text
