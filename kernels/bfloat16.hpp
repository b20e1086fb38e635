// Conversion of BF16 and FP16 bits to and from FP32, with the same bits on every processor.
#pragma once

#include <bit>
#include <cstdint>

namespace troupe::kernels {

/// Upper half of an IEEE binary32. It only holds bits: arithmetic happens in FP32.
struct bfloat16 {
  std::uint16_t bits = 0;

  friend bool operator==(bfloat16, bfloat16) = default;
};

/// Exact.
constexpr float to_float(bfloat16 value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to nearest even. A NaN stays a quiet NaN of the same sign. Denormals are kept as bits, whatever
/// MXCSR says.
constexpr bfloat16 to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return {static_cast<std::uint16_t>((bits >> 16) | 0x0040u)};
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

/// IEEE binary16 bits to FP32, exact, denormals included.
constexpr float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  std::uint32_t exponent = (half >> 10) & 0x1fu;
  std::uint32_t fraction = half & 0x3ffu;
  if (exponent == 0x1fu)
    return std::bit_cast<float>(sign | 0x7f800000u | (fraction << 13));
  if (exponent == 0) {
    if (fraction == 0)
      return std::bit_cast<float>(sign);
    exponent = 1;
    while ((fraction & 0x400u) == 0) {
      fraction <<= 1;
      --exponent; // may wrap below zero: only the sum with 112 below is used
    }
    fraction &= 0x3ffu;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (fraction << 13));
}

} // namespace troupe::kernels
