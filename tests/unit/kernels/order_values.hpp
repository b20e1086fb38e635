// Operands for units that multiply BF16: values that distinguish orders of additions, and show how a
// processor rounds, flushes and overflows.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <span>

#include "kernels/bfloat16.hpp"

namespace troupe::kernels::order {

enum class kind { normal, wide, tiny_results, denormal_inputs, cancelling, ties, infinite, not_numbers };

constexpr std::array all_kinds{kind::normal,     kind::wide, kind::tiny_results, kind::denormal_inputs,
                               kind::cancelling, kind::ties, kind::infinite,     kind::not_numbers};

inline const char* name_of(kind k) {
  constexpr std::array names{"normal",     "wide", "tiny results", "denormal inputs",
                             "cancelling", "ties", "infinite",     "not numbers"};
  return names[static_cast<std::size_t>(k)];
}

class generator {
 public:
  explicit generator(kind k) : kind_(k), engine_(static_cast<unsigned>(k) + 1) {}

  float value() {
    switch (kind_) {
    case kind::normal:
      return normal_(engine_);
    case kind::wide:
      return with_exponent(-60, 60);
    case kind::tiny_results: // products around 2⁻¹²⁶, on both sides
      return with_exponent(-66, -60);
    case kind::denormal_inputs:
      return engine_() % 3 == 0 ? from_bits(static_cast<std::uint32_t>(engine_() % 0x800000U))
                                : with_exponent(-127, 60);
    case kind::cancelling: {
      const auto x = static_cast<float>(1 + engine_() % 4);
      return engine_() % 2 == 0 ? x : -x * (engine_() % 64 == 0 ? 1.0078125F : 1.0F);
    }
    case kind::ties: // a few long mantissas among powers of two: sums that lie half way
      return engine_() % 2 == 0 ? with_exponent(-13, 13, 1) : with_exponent(-1, 1, 8);
    case kind::infinite:
      return engine_() % 40 == 0 ? std::copysign(std::numeric_limits<float>::infinity(), normal_(engine_))
                                 : with_exponent(-20, 127);
    case kind::not_numbers:
      if (engine_() % 60 == 0)
        return from_bits(0x7f810000U
                         | (static_cast<std::uint32_t>(engine_()) & 0x807f0000U)); // quiet and not
      return engine_() % 30 == 0 ? std::numeric_limits<float>::infinity() : normal_(engine_);
    }
    return 0.0F;
  }

  void fill(std::span<bfloat16> operands) {
    for (auto& x : operands)
      x = {static_cast<std::uint16_t>(bits_of(value()) >> 16)};
  }

  /// The sums that products of such operands are added to.
  void fill(std::span<float> sums) {
    const float down = kind_ == kind::tiny_results ? 0x1p-62F : 1.0F;
    for (auto& x : sums)
      x = engine_() % 4 == 0 ? 0.0F : value() * down;
  }

 private:
  static float from_bits(std::uint32_t bits) { return std::bit_cast<float>(bits); }

  static std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

  float with_exponent(int low, int high, unsigned mantissa_bits = 24) {
    const auto exponent = static_cast<std::uint32_t>(
        127 + low + static_cast<int>(engine_() % static_cast<unsigned>(high - low + 1)));
    const std::uint32_t mantissa = static_cast<std::uint32_t>(engine_()) & 0x7fffffU;
    const std::uint32_t kept =
        mantissa_bits >= 24 ? mantissa : mantissa & ~(0x7fffffU >> (mantissa_bits - 1));
    return from_bits(static_cast<std::uint32_t>(engine_() % 2) << 31 | exponent << 23 | kept);
  }

  kind kind_;
  std::mt19937 engine_;
  std::normal_distribution<float> normal_;
};

} // namespace troupe::kernels::order
