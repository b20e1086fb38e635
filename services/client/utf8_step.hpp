// The first character of a text in UTF-8 that nobody has checked.
#pragma once

#include <cstddef>
#include <string_view>

namespace troupe {

struct utf8_step {
  size_t bytes = 1;        ///< that it takes; of malformed UTF-8 one at a time
  char32_t code_point = 0; ///< where it is valid
  bool is_valid = false;
};

/// @param text  not empty
inline utf8_step first_of_utf8(std::string_view text) {
  const auto byte = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned first = byte(0);
  if (first < 0x80)
    return {1, static_cast<char32_t>(first), true};
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length)
    return {};
  auto code = static_cast<char32_t>(first & (0xFFU >> (length + 1)));
  for (size_t i = 1; i < length; ++i) {
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
