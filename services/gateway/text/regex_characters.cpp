#include "services/gateway/text/regex_characters.hpp"

#include "services/gateway/text/newer_characters.hpp"

namespace troupe::text {

namespace {

// Other_Alphabetic characters that are symbols.
constexpr std::string_view alphabetic_symbols =
    R"(\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";

} // namespace

const std::string_view space_items =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029})"
    R"(\x{202f}\x{205f}\x{3000})";
const std::string_view non_space_items =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027})"
    R"(\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{d7ff}\x{e000}-\x{10ffff})";
const std::string_view any_character = R"([\x{0}-\x{d7ff}\x{e000}-\x{10ffff}])";

std::string hex_escape(char32_t value) {
  static constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "}";
  do {
    out.insert(out.begin(), digits[value & 0xFU]);
    value >>= 4U;
  } while (value != 0);
  return R"(\x{)" + out;
}

std::string property_items(std::string_view name) {
  std::string out = R"(\p{)" + std::string(name) + "}";
  for (const auto& [category, items] : newer_characters)
    if (category == name)
      out += items;
  return out;
}

std::string word_items() {
  return property_items("L") + property_items("Nl") + property_items("M") + property_items("Nd")
         + property_items("Pc") + std::string(alphabetic_symbols);
}

} // namespace troupe::text
