// The loops of integer products on AVX2, for a few rows and a panel's 16 columns. AVX2 multiplies unsigned
// with signed bytes and adds pairs of products in 16 bits (VPMADDUBSW). Sums, int32 [Rows][16], are collected
// in the place of the results, `c`. Included only by isa_kernels.cpp, for AVX2.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/gemm/fma_loops_avx2.hpp"
#include "kernels/cpu/gemm/int8/rows.hpp"
#include "kernels/cpu/prefetch/fetch_avx2.hpp"
#include "kernels/cpu/simd/row_pointers.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t halves = 2; // of a panel's 16 columns

/// The sums of a row and 8 columns.
TROUPE_INLINE vi load_sums(const float* c) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(c));
}

TROUPE_INLINE void store_sums(float* c, vi sums) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(c), sums);
}

/// Four bytes of row `r`, in every lane.
template <std::size_t Rows>
TROUPE_INLINE vi row_bytes(const row_pointers<Rows>& rows, std::size_t r, std::size_t offset) {
  return broadcast_bytes(rows.at(r, offset));
}

/// Keeps a sum in its register, and its additions in program order: the compiler may reorder integer
/// additions, and would keep many products and spill the sums.
TROUPE_INLINE void keep(vi& sum) {
  __asm__("" : "+x"(sum));
}

// int8: w + 128 times the narrow values of a row (`gemm/int8/narrow_rows_avx2.hpp`), −128 Σ x to compensate,
// and at the end the cut-off parts.

/// w + 128 of four of K and 8 columns.
TROUPE_INLINE vi unsigned_weights(const std::byte* from) {
  return _mm256_xor_si256(load_pairs(from), _mm256_set1_epi8(static_cast<char>(0x80)));
}

/// `count` of K, a multiple of 8, of an int8 panel.
/// @param a      narrow values of the rows
template <std::size_t Rows, class Fetch>
TROUPE_INLINE void avx2_int8_packed(const std::byte* a, std::size_t a_stride, const std::byte* from,
                                    std::size_t count, float* c, Fetch& fetch) {
  vi sums[Rows][halves];
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h)
      sums[r][h] = load_sums(c + r * 16 + h * 8);
  row_pointers<Rows> rows(a, a_stride);
  const vi ones = _mm256_set1_epi16(1);
  constexpr std::size_t together = 2;
#pragma GCC unroll 1
  for (std::size_t k = 0; k < count; k += 4 * together) {
#pragma GCC unroll 2
    for (std::size_t i = 0; i < together; ++i) {
      fetch.weights(from + i * 64, i);
      const vi w[halves] = {unsigned_weights(from + i * 64), unsigned_weights(from + i * 64 + 32)};
#pragma GCC unroll 6
      for (std::size_t r = 0; r < Rows; ++r) {
        const vi x = row_bytes<Rows>(rows, r, 4 * i);
#pragma GCC unroll 2
        for (std::size_t h = 0; h < halves; ++h) {
          const vi pairs = _mm256_maddubs_epi16(w[h], x);
          sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(pairs, ones));
          if constexpr (Rows > 2)
            keep(sums[r][h]);
        }
      }
    }
    rows.advance(4 * together);
    from += 64 * together;
  }
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t h = 0; h < halves; ++h)
      store_sums(c + r * 16 + h * 8, sums[r][h]);
}

/// The same for a part of a panel in L1, while the next part is prefetched.
template <std::size_t Rows, std::size_t Lines>
TROUPE_LOOP void avx2_int8_in_turn(const std::byte* a, std::size_t a_stride, const std::byte* from,
                                   std::size_t count, float* c, fetch_coming<Lines> fetch) {
  avx2_int8_packed<Rows>(a, a_stride, from, count, c, fetch);
}

TROUPE_INLINE std::uint32_t load_uint32(const std::byte* from) {
  std::uint32_t x = 0;
  std::memcpy(&x, from, sizeof x);
  return x;
}

/// c += the cut-off parts of a row's values times a whole panel.
/// @param fours  their number and data, as `int8_row_wide` describes
TROUPE_INLINE void avx2_add_wide(const std::byte* fours, const std::byte* weights, float* c) {
  const std::size_t count = load_uint32(fours);
  if (count == 0)
    return;
  const vi ones = _mm256_set1_epi16(1);
  vi sums[halves] = {load_sums(c), load_sums(c + 8)};
  const std::byte* const end = fours + count * 8;
  for (; fours != end; fours += 8) {
    const std::byte* from = weights + load_uint32(fours + 4);
    const vi x = broadcast_bytes(fours + 8);
    for (std::size_t h = 0; h < halves; ++h)
      sums[h] = _mm256_add_epi32(
          sums[h], _mm256_madd_epi16(_mm256_maddubs_epi16(unsigned_weights(from + h * 32), x), ones));
  }
  store_sums(c, sums[0]);
  store_sums(c + 8, sums[1]);
}

// int4: a group's sum is kept in two parts of 16 bits. The first has −8 Σ x of all 32, which compensates for
// making half bytes unsigned, and u · x of 16 of them; the second u · x of the other 16. With u = q + 8,
// every term of the first is at most 8 · 127, with or without its u · x: 32 of them fit, and so do 16 · 15 ·
// 127. Multiplying both with the group's scale and adding them up is one instruction. A row's −8 Σ x are
// stored with zeros above their 16 bits: the initial value of both parts.

/// block += u · x of four of K.
TROUPE_INLINE void add_half_bytes(vi (&block)[halves], const vi (&u)[halves], vi x) {
#pragma GCC unroll 2
  for (std::size_t h = 0; h < halves; ++h) {
    block[h] = _mm256_add_epi16(block[h], _mm256_maddubs_epi16(u[h], x));
    keep(block[h]);
  }
}

/// A group's scales, each in both parts of a lane.
TROUPE_INLINE void load_group_scales(const std::byte* from, vi (&scales)[halves]) {
  const auto* bytes = reinterpret_cast<const __m128i*>(from);
  // Columns 0 … 3, 8 … 11, 4 … 7, 12 … 15: pairs are made in halves of a register.
  const vi g = _mm256_permute4x64_epi64(_mm256_cvtepi8_epi16(_mm_loadu_si128(bytes)), 0xd8);
  scales[0] = _mm256_unpacklo_epi16(g, g);
  scales[1] = _mm256_unpackhi_epi16(g, g);
}

/// c += block · scales.
TROUPE_INLINE void add_group(float* c, const vi (&block)[halves], const vi (&scales)[halves]) {
#pragma GCC unroll 2
  for (std::size_t h = 0; h < halves; ++h)
    store_sums(c + h * 8, _mm256_add_epi32(load_sums(c + h * 8), _mm256_madd_epi16(block[h], scales[h])));
}

/// block += u · x of eight of K, a line of weights.
/// @param offset  place in the rows
template <std::size_t Rows>
TROUPE_INLINE void add_int4_line(const std::byte* line, const row_pointers<Rows>& rows, std::size_t offset,
                                 vi (&block)[Rows][halves]) {
  const vi bytes[halves] = {load_pairs(line), load_pairs(line + 32)};
  const vi low[halves] = {low_half_bytes(bytes[0]), low_half_bytes(bytes[1])};
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    add_half_bytes(block[r], low, row_bytes<Rows>(rows, r, offset));
  const vi high[halves] = {high_half_bytes(bytes[0]), high_half_bytes(bytes[1])};
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    add_half_bytes(block[r], high, row_bytes<Rows>(rows, r, offset + 4));
}

/// A block of 32 of K of int4, whose scales are `scales`.
template <std::size_t Rows, class Fetch>
TROUPE_INLINE void add_int4_block(const std::byte* from, row_pointers<Rows>& rows,
                                  row_pointers<Rows>& offsets, const vi (&scales)[halves], float* c,
                                  Fetch& fetch) {
  vi block[Rows][halves];
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    block[r][0] = block[r][1] = row_bytes<Rows>(offsets, r, 0);
#pragma GCC unroll 4
  for (std::size_t line = 0; line < int4_block_bytes / 64; ++line) {
    fetch.weights(from + line * 64, line);
    add_int4_line<Rows>(from + line * 64, rows, line * 8, block);
  }
  rows.advance(block_k);
#pragma GCC unroll 6
  for (std::size_t r = 0; r < Rows; ++r)
    add_group(c + r * 16, block[r], scales);
  offsets.advance(sizeof(std::int32_t));
}

/// `blocks` blocks of 32 of K from `k` on of an int4 panel; a line of group scales, if there are any,
/// precedes the first.
/// @param a  the rows from their beginning, `inputs` long
template <std::size_t Rows, class Fetch>
TROUPE_INLINE void avx2_int4_packed(const std::byte* a, std::size_t a_stride, std::size_t inputs,
                                    const quant_panel& panel, std::size_t k, std::size_t blocks, float* c,
                                    Fetch& fetch) {
  row_pointers<Rows> rows(a + k, a_stride);
  row_pointers<Rows> offsets(block_offsets(a, inputs) + k / block_k, a_stride);
  const std::size_t begin = k / block_k;
  vi scales[halves] = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)};
  if (!panel.has_groups()) {
    const std::byte* from = panel.weights + begin * int4_block_bytes;
#pragma GCC unroll 1
    for (std::size_t b = 0; b < blocks; ++b, from += int4_block_bytes)
      add_int4_block<Rows>(from, rows, offsets, scales, c, fetch);
    return;
  }
  const std::size_t last_of_line = panel.layout.blocks_of_line() - 1;
  const std::size_t group_bits = panel.layout.group_blocks / 2; // log2 of the blocks that share a scale
  const std::byte* line = panel.weights + panel.layout.bytes(begin);
#pragma GCC unroll 1
  for (std::size_t b = 0; b < blocks; ++b) {
    const std::size_t of_line = b & last_of_line;
    if (of_line == 0)
      fetch.scales();
    load_group_scales(line + (of_line >> group_bits) * 16, scales);
    const std::byte* from = line + scale_line_bytes + of_line * int4_block_bytes;
    // Hides the pointer's origin from the compiler, which would otherwise load weights into registers to mask
    // them twice, although masks take them from memory (0.94 of the speed in L1).
    __asm__("" : "+r"(from));
    add_int4_block<Rows>(from, rows, offsets, scales, c, fetch);
    if (of_line == last_of_line)
      line += panel.layout.bytes_of_line();
  }
}

/// The same for a part of a panel in L1, while the next part is prefetched.
template <std::size_t Rows, std::size_t Lines>
TROUPE_LOOP void avx2_int4_in_turn(const std::byte* a, std::size_t a_stride, std::size_t inputs,
                                   const quant_panel& panel, std::size_t k, std::size_t blocks, float* c,
                                   fetch_coming<Lines> fetch) {
  avx2_int4_packed<Rows>(a, a_stride, inputs, panel, k, blocks, c, fetch);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
