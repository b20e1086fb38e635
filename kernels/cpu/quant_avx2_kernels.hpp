// Integer products on AVX2, which multiplies unsigned with signed bytes and adds pairs of them in 16 bits
// (VPMADDUBSW). Included by isa_kernels.cpp only, and there for AVX2 only.
//
// Up to four panels are read by turns of 64 of K, straight from the packed bytes; sums wait in memory.
#pragma once

#include <utility>

#include "kernels/cpu/quant_integer_kernels.hpp"
#include "kernels/cpu/weight_fetch.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t halves = 2; // of a panel's 16 columns

/// 64 of K of a panel of int8: |w| times x with w's sign stays below 127 · 127, so that pairs fit 16 bits.
/// @param fetch  lines to fetch for each that is read
template <std::size_t Rows>
TROUPE_INLINE void avx2_int8_step(const std::byte* a, std::size_t a_stride, const std::byte* from,
                                  const std::byte* fetch, vi (&sums)[Rows][halves]) {
  const vi ones = _mm256_set1_epi16(1);
#pragma GCC unroll 2
  for (std::size_t i = 0; i < step_k; i += 4, from += 64, fetch += 64) {
    weight_fetcher::fetch_line<1024>(fetch, from);
    const vi w[halves] = {load_pairs(from), load_pairs(from + 32)};
    const vi magnitude[halves] = {_mm256_abs_epi8(w[0]), _mm256_abs_epi8(w[1])};
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const vi x = broadcast_bytes(a + r * a_stride + i);
#pragma GCC unroll 2
      for (std::size_t h = 0; h < halves; ++h)
        sums[r][h] = _mm256_add_epi32(
            sums[r][h],
            _mm256_madd_epi16(_mm256_maddubs_epi16(magnitude[h], _mm256_sign_epi8(x, w[h])), ones));
    }
  }
}

/// Eight group scales, each in both halves of a lane.
TROUPE_INLINE vi avx2_group_scales(const std::byte* scales) {
  const vi g = load_int8_int(scales);
  return _mm256_or_si256(_mm256_slli_epi32(g, 16), _mm256_and_si256(g, _mm256_set1_epi32(0xffff)));
}

/// A block of 32 of K of a panel of int4. A group's sum is kept in two parts of 16 bits: −8 Σ x of all 32,
/// which takes away what making half bytes unsigned adds, and u · x of 16 of them; and u · x of the other 16.
/// With u = q + 8, every term of the first is at most 8 · 127, done or not: 32 of them stay inside, and so do
/// 16 · 15 · 127. Multiplying both with the group's scale and adding them up is one instruction.
/// @param scales  of the two halves, as `avx2_group_scales`
template <std::size_t Rows>
TROUPE_INLINE void avx2_int4_block(const std::byte* a, std::size_t a_stride,
                                   const std::int32_t* const* offsets, const std::byte* from, std::size_t k,
                                   const vi (&scales)[halves], vi (*sums)[halves]) {
  vi block[Rows][halves];
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r)
    block[r][0] = block[r][1] = _mm256_set1_epi32(offsets[r][k / block_k] & 0xffff);
#pragma GCC unroll 1
  for (std::size_t i = 0; i < block_k; i += 8, from += 64) {
    // Rows are read again for every line: kept, they would be spilled.
    __asm__ volatile("" ::: "memory");
    const vi bytes[halves] = {load_pairs(from), load_pairs(from + 32)};
    const vi low[halves] = {low_half_bytes(bytes[0]), low_half_bytes(bytes[1])};
    const vi high[halves] = {high_half_bytes(bytes[0]), high_half_bytes(bytes[1])};
#pragma GCC unroll 4
    for (std::size_t r = 0; r < Rows; ++r) {
      const std::byte* x = a + r * a_stride + k + i;
      const vi x_low = broadcast_bytes(x);
      const vi x_high = broadcast_bytes(x + 4);
#pragma GCC unroll 2
      for (std::size_t h = 0; h < halves; ++h) {
        block[r][h] = _mm256_add_epi16(block[r][h], _mm256_maddubs_epi16(low[h], x_low));
        block[r][h] = _mm256_add_epi16(block[r][h], _mm256_maddubs_epi16(high[h], x_high));
      }
    }
  }
#pragma GCC unroll 4
  for (std::size_t r = 0; r < Rows; ++r)
#pragma GCC unroll 2
    for (std::size_t h = 0; h < halves; ++h)
      sums[r][h] = _mm256_add_epi32(sums[r][h], _mm256_madd_epi16(block[r][h], scales[h]));
}

template <std::size_t Rows, std::size_t Panels>
static void avx2_block(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                       const weight_fetcher& fetcher, std::size_t k, float* c, std::size_t c_stride) {
  const bool int8 = first.format == packed_format::int8_channel;
  const std::size_t bytes = step_bytes(first.format);
  const std::int32_t* offsets[Rows];
  for (std::size_t r = 0; r < Rows; ++r)
    offsets[r] = block_offsets(a + r * a_stride, k);
  vi sums[Panels][Rows][halves];
  for (auto& panel : sums)
    for (auto& row : panel)
      row[0] = row[1] = _mm256_setzero_si256();
  // In memory: registers are needed for what is added up within a step.
  __asm__ volatile("" : : "r"(&sums) : "memory");
  for (std::size_t b = 0; b < k; b += step_k)
    for (std::size_t p = 0; p < Panels; ++p) {
      const quant_panel panel = first.next(p);
      const std::byte* from = panel.weights + b / step_k * bytes;
      const std::byte* fetch = fetcher(p, b / step_k * bytes);
      if (int8) {
        vi kept[Rows][halves];
        for (std::size_t r = 0; r < Rows; ++r)
          for (std::size_t h = 0; h < halves; ++h)
            kept[r][h] = sums[p][r][h];
        avx2_int8_step<Rows>(a + b, a_stride, from, fetch, kept);
        for (std::size_t r = 0; r < Rows; ++r)
          for (std::size_t h = 0; h < halves; ++h)
            sums[p][r][h] = kept[r][h];
        continue;
      }
      for (std::size_t i = 0; i < bytes; i += 64)
        weight_fetcher::fetch_line<512>(fetch + i, from + i);
      for (std::size_t i = b; i < b + step_k && i < k; i += block_k, from += int4_block_bytes) {
        vi scales[halves] = {_mm256_set1_epi16(1), _mm256_set1_epi16(1)};
        if (panel.group_scales != nullptr)
          for (std::size_t h = 0; h < halves; ++h)
            scales[h] = avx2_group_scales(panel.group_scales_of(i / block_k) + h * 8);
        avx2_int4_block<Rows>(a, a_stride, offsets, from, i, scales, sums[p]);
      }
    }
  for (std::size_t p = 0; p < Panels; ++p)
    for (std::size_t r = 0; r < Rows; ++r)
      for (std::size_t h = 0; h < halves; ++h)
        store_integer_result(c + p * c_stride + r * 16 + h * 8, sums[p][r][h], a + r * a_stride, k,
                             first.next(p).scales + h * 8);
}

template <std::size_t Panels>
static void avx2_rows(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& first,
                      std::size_t panels, const upcoming_panels& next, std::size_t k, float* c) {
  const std::size_t c_stride = rows * 16;
  constexpr std::size_t most = 4; // rows whose sums registers hold
  for (std::size_t row = 0; row < rows;) {
    // Fetched once: what follows finds the panels in the cache.
    const weight_fetcher fetcher(first, Panels, row == 0 ? panels : 0, k,
                                 row == 0 ? next : upcoming_panels{});
    const std::byte* x = a + row * a_stride;
    float* y = c + row * 16;
    const std::size_t count = rows - row < most ? rows - row : most;
    [&]<std::size_t... Less>(std::index_sequence<Less...>) {
      // One of them: as many rows as there are.
      ((count == Less + 1 ? avx2_block<Less + 1, Panels>(x, a_stride, first, fetcher, k, y, c_stride)
                          : void()),
       ...);
    }
    (std::make_index_sequence<most>{});
    row += count;
  }
}

/// Many rows take a panel at a time, which stays in L1 while they pass.
static void integer_panels_avx2(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                std::size_t k, float* c) {
  std::size_t p = 0;
  if (rows <= 8)
    for (; p + 4 <= panels; p += 4)
      avx2_rows<4>(a, a_stride, rows, first.next(p), panels - p, next, k, c + p * rows * 16);
  for (; p < panels; ++p)
    avx2_rows<1>(a, a_stride, rows, first.next(p), panels - p, next, k, c + p * rows * 16);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
