// The first character of an unchecked UTF-8 text.
#pragma once

#include <cstddef>
#include <string_view>

namespace troupe {

struct utf8_step {
  std::size_t bytes = 1;   ///< length of the character; 1 for malformed UTF-8
  char32_t code_point = 0; ///< if it is valid
  bool is_valid = false;
};

/// @param text  not empty
inline utf8_step first_of_utf8(std::string_view text) {
  const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80)
    return {1, static_cast<char32_t>(first), true};
  const std::size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length)
    return {};
  auto code = static_cast<char32_t>(first & (0xFFU >> (length + 1)));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0U) != 0x80U)
      return {};
    code = code << 6U | (byte(i) & 0x3FU);
  }
  // Overlong forms, surrogates, and beyond Unicode.
  if ((length == 3 && code < 0x800) || (length == 4 && (code < 0x10000 || code > 0x10FFFF))
      || (code >= 0xD800 && code < 0xE000))
    return {};
  return {length, code, true};
}

} // namespace troupe
