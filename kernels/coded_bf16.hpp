// Lossless coding of BF16 weights in about 12 bits each. Trained weights have few exponents, so each weight
// keeps its sign and mantissa, 8 bits, and a 4-bit index of one of its panel's 16 most frequent exponents.
// The few weights with another exponent are listed. (DFloat11, arXiv 2504.11651, codes exponents by Huffman's
// method: 11 bits, but no weight has a fixed place.)
//
// A coded panel of K padded to 32, in `blocks` of 32:
//  64 bytes                     [32] u16: exponents shifted left by 7, the 16 of them twice
//  4 · blocks, padded to 64     exceptions in order of position: u32, (k · 16 + column) << 8 | exponent;
//                               then `no_exception`, at least once
//  blocks × 4 × 192 bytes       eight of K: 64 bytes of codes, then 64 bytes of signs and mantissas of the
//                               first four of these k and 64 of the others
// A line of 64 bytes is [16 columns] u32. With e₀ … e₇ the codes and s, m sign and mantissa of k = 0 … 7:
//  codes   bits 0 … 15: e₂, e₃, e₆, e₇; bits 16 … 31: e₀, e₁, e₄, e₅; four bits each, the first ones lowest
//  signs and mantissas of k = 0 … 3, and of 4 … 7 likewise, from the highest bit on: s₀ m₃ s₁ m₀ s₂ m₁ s₃ m₂
// So a word of codes is an index (VPERMW reads its lowest bits only). A line of signs and mantissas masked
// with 0x807f holds those of (2, 0) in its words; rotated left by 8, those of (3, 1). A pair of k is what a
// dot product of BF16 takes (docs/kernels/avx512.md).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"

namespace troupe::kernels {

inline constexpr std::size_t coded_block_bytes = 768;
inline constexpr std::size_t coded_group_bytes = 192; // of 8 k
inline constexpr std::size_t exponent_table_bytes = 64;

/// Ends the list of exceptions. As a position it is beyond the end of every panel.
inline constexpr std::uint32_t no_exception = 0xffffffff;

/// Bytes of a panel's exceptions.
constexpr std::size_t exceptions_bytes(std::size_t blocks) {
  return (4 * blocks + 63) / 64 * 64;
}

/// Bytes before a panel's first block.
constexpr std::size_t coded_header_bytes(std::size_t blocks) {
  return exponent_table_bytes + exceptions_bytes(blocks);
}

constexpr std::size_t coded_panel_bytes(std::size_t blocks) {
  return coded_header_bytes(blocks) + blocks * coded_block_bytes;
}

/// The block of 32 of K of an exception; for `no_exception` one beyond any panel.
constexpr std::size_t block_of(std::uint32_t exception) {
  return exception >> 17;
}

/// A panel's exceptions from block `block` on. Always inlined: units of several instruction sets use it.
inline __attribute__((always_inline)) const std::uint32_t* exceptions_from(const std::byte* panel,
                                                                           std::size_t block) {
  const auto* exception = reinterpret_cast<const std::uint32_t*>(panel + exponent_table_bytes);
  while (block_of(*exception) < block)
    ++exception;
  return exception;
}

/// Codes a panel of `packed_format::bf16_pair` into `coded_panel_bytes(blocks)` at `out`.
/// @returns false if it has more exceptions than fit, or 2²⁰ − 32 of K or more
bool code_panel(const bfloat16* pairs, std::size_t blocks, std::byte* out);

/// Whether a panel's exceptions are as `code_panel` writes them: inside the panel, in order, and terminated.
bool has_valid_exceptions(const std::byte* panel, std::size_t blocks);

/// The weight at `k` of `column` of a coded panel.
bfloat16 decoded(const std::byte* panel, std::size_t blocks, std::size_t k, std::size_t column);

} // namespace troupe::kernels
