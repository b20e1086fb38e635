// Hexadecimal text of numbers.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::model {

/// 16 lower-case digits.
inline std::string hex_of(std::uint64_t value) {
  std::string text;
  for (int shift = 60; shift >= 0; shift -= 4)
    text += "0123456789abcdef"[value >> shift & 15U];
  return text;
}

} // namespace troupe::model
