// Converts small integers to BF16 in registers, two at a time, without integer-to-float conversions.
//
// After "Who Says Elephants Can't Run" § 3.4: weights are stored with a bias, as unsigned numbers, in an
// order in which a mask selects two that are 16 bits apart. Such a number, put into the mantissa of a float
// of known exponent, *is* that float plus a constant. The paper uses FP16 with its 10 bits of mantissa.
// Activations here are BF16, whose range FP16 lacks, and BF16 has 7: the lower 7 bits go into the mantissa of
// 128, and the eighth selects one of two constants to subtract.
#pragma once

#include <cstdint>

#include "kernels/cuda/bits.hpp"

namespace troupe::kernels::cuda {

/// Added to int8 and int4 weights when they are stored.
inline constexpr int int8_bias = 128;
inline constexpr int int4_bias = 8;

/// Four int8 weights of consecutive inputs, biased, in bytes 0, 2, 1, 3: a mask selects two of them 16 bits
/// apart.
TROUPE_BOTH constexpr std::uint32_t int8_word(int k0, int k1, int k2, int k3) {
  const auto biased = [](int q) { return static_cast<std::uint32_t>(q + int8_bias); };
  return biased(k0) | biased(k2) << 8 | biased(k1) << 16 | biased(k3) << 24;
}

/// Inputs 2 · pair and 2 · pair + 1 of such a word (pair 0 or 1), exactly: 128 + (u mod 128), minus 256 if
/// the bias bit is clear and minus 128 if it is set.
TROUPE_BOTH inline std::uint32_t int8_pair(std::uint32_t word, unsigned pair) {
  const std::uint32_t bytes = word >> (8 * pair);
  const std::uint32_t raised = (bytes & 0x007f007fU) | 0x43004300U;  // 128 + the lower seven bits
  const std::uint32_t surplus = (bytes & 0x00800080U) ^ 0x43804380U; // 256, or 128
  return subtract_bf16_pairs(raised, surplus);
}

/// Four int8 numbers without bias, in order in a word's bytes, converted exactly to two pairs of BF16.
TROUPE_BOTH inline bits64 int8_in_order(std::uint32_t word) {
  const std::uint32_t biased = word ^ 0x80808080U;
  const std::uint32_t even = int8_pair(biased, 0); // bytes 0 and 2
  const std::uint32_t odd = int8_pair(biased, 1);
  return {{(even & 0xffffU) | odd << 16, even >> 16 | (odd & 0xffff0000U)}};
}

/// Eight int4 weights, biased. Pair p (inputs or channels 2p, 2p + 1, as the caller chooses) has its first in
/// half byte p and its second in half byte 4 + p: [e0, e2, e4, e6, e1, e3, e5, e7], the paper's order.
/// @param q  eight numbers from −8 to 7
TROUPE_BOTH constexpr std::uint32_t int4_word(const int (&q)[8]) {
  std::uint32_t word = 0;
  for (unsigned p = 0; p < 4; ++p) {
    word |= static_cast<std::uint32_t>(q[2 * p] + int4_bias) << (4 * p);
    word |= static_cast<std::uint32_t>(q[2 * p + 1] + int4_bias) << (4 * p + 16);
  }
  return word;
}

/// Removes the bias from a raised int4 number and multiplies with the group's scale g: x · g − 136 g. Exact,
/// as 136 g = 17 · 8 g has at most 8 significant bits for |g| ≤ 15.
struct int4_scale {
  std::uint32_t factor; ///< g, in both halves
  std::uint32_t offset; ///< −136 g, in both halves
};

/// @param scale  g as BF16 in both halves
TROUPE_BOTH inline int4_scale int4_scale_of(std::uint32_t scale) {
  constexpr std::uint32_t minus_136 = 0xc308c308U;
  return {scale, fma_bf16_pairs(scale, minus_136, 0x80008000U)}; // + −0 keeps the product unchanged
}

/// Pair `pair` (0 to 3) of such a word times the group's scale: q · g, exactly.
TROUPE_BOTH inline std::uint32_t int4_pair(std::uint32_t word, unsigned pair, const int4_scale& scale) {
  const std::uint32_t raised = (word >> (4 * pair) & 0x000f000fU) | 0x43004300U; // 128 + u
  return fma_bf16_pairs(raised, scale.factor, scale.offset);
}

} // namespace troupe::kernels::cuda
