// Integer products on AVX-512's dot products of bytes (VNNI), which some AVX-512 processors lack. Included
// only by AVX-512's kernels.
//
// VPDPBUSD multiplies unsigned with signed bytes: weights are made unsigned by adding 128 (int4 is stored
// with 8 added), and a correction is subtracted beforehand. Up to four panels are read side by side, directly
// from the packed bytes.
#pragma once

#include "kernels/cpu/gemm/int8/generic.hpp"
#include "kernels/cpu/gemm/int8/unpacked_vnni.hpp"
#include "kernels/cpu/prefetch/weight_fetch.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

template <std::size_t Rows, std::size_t Panels, class Fetcher>
TROUPE_VNNI static void vnni_int8(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                                  const Fetcher& fetcher, std::size_t k, __m512i (&sums)[Panels][Rows]) {
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t p = 0; p < Panels; ++p)
      sums[p][r] = _mm512_set1_epi32(row_correction(a + r * a_stride, k));
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  for (std::size_t b = 0; b < k; b += step_k) {
    const std::byte* fetch[Panels];
    for (std::size_t p = 0; p < Panels; ++p)
      fetch[p] = fetcher(p, b * 16) - b * 16;
#pragma GCC unroll 4
    for (std::size_t i = b; i < b + step_k; i += 4) {
      __m512i x[Rows];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        x[r] = broadcast_bytes(a + r * a_stride + i);
#pragma GCC unroll 4
      for (std::size_t p = 0; p < Panels; ++p) {
        const std::byte* from = first.weights + p * first.stride + i * 16;
        Fetcher::template fetch_line<1024>(fetch[p] + i * 16, from);
        const __m512i weights = _mm512_xor_si512(_mm512_loadu_si512(from), sign);
#pragma GCC unroll 16
        for (std::size_t r = 0; r < Rows; ++r)
          sums[p][r] = _mm512_dpbusd_epi32(sums[p][r], weights, x[r]);
      }
    }
  }
}

/// Sums of a block of 32 of K of `Panels` ≤ 2 panels. A group's sum of 32 products, |q · x| ≤ 8 · 127 each,
/// fits 16 bits: one instruction multiplies it with the group's scale and accumulates. That instruction
/// multiplies pairs of 16 bits; scales are masked to their lower halves, so that the upper halves add 0.
/// @param far  of each panel, start of the lines to prefetch, `far_offset` further on
template <std::size_t Rows, std::size_t Panels, class Fetcher>
TROUPE_VNNI TROUPE_INLINE void
vnni_int4_block(const std::byte* a, std::size_t a_stride, const quant_panel& first, std::size_t b,
                std::size_t k, const std::byte* const* far, std::size_t far_offset, __m512i (*sums)[Rows]) {
  const std::byte* from = first.int4_block(b);
  __m512i block[Panels][Rows];
#pragma GCC unroll 16
  for (std::size_t r = 0; r < Rows; ++r) {
    const __m512i offset = _mm512_set1_epi32(block_offsets(a + r * a_stride, k)[b]);
    for (std::size_t p = 0; p < Panels; ++p)
      block[p][r] = offset;
  }
#pragma GCC unroll 4
  for (std::size_t i = 0; i < block_k; i += 8, from += 64) {
    __m512i low[Panels];
    __m512i high[Panels];
#pragma GCC unroll 2
    for (std::size_t p = 0; p < Panels; ++p) {
      const std::byte* line = from + p * first.stride;
      Fetcher::template fetch_line<512>(far[p] + far_offset + i * 8, line);
      const __m512i bytes = _mm512_loadu_si512(line);
      low[p] = low_half_bytes(bytes);
      high[p] = high_half_bytes(bytes);
    }
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r) {
      const std::byte* x = a + r * a_stride + b * block_k + i;
      __m512i x_low = broadcast_bytes(x);
      __m512i x_high = broadcast_bytes(x + 4);
      __asm__("" : "+v"(x_low), "+v"(x_high)); // broadcast once, not once for each panel
#pragma GCC unroll 2
      for (std::size_t p = 0; p < Panels; ++p)
        block[p][r] = _mm512_dpbusd_epi32(block[p][r], low[p], x_low);
#pragma GCC unroll 2
      for (std::size_t p = 0; p < Panels; ++p)
        block[p][r] = _mm512_dpbusd_epi32(block[p][r], high[p], x_high);
    }
  }
#pragma GCC unroll 2
  for (std::size_t p = 0; p < Panels; ++p) {
    __m512i g = _mm512_set1_epi32(1);
    if (first.has_groups())
      g = _mm512_and_si512(load_int8_int(first.group_scales_of(b) + p * first.stride),
                           _mm512_set1_epi32(0xffff));
#pragma GCC unroll 16
    for (std::size_t r = 0; r < Rows; ++r)
      sums[p][r] = _mm512_dpwssd_epi32(sums[p][r], block[p][r], g);
  }
}

/// Two panels at a time, 64 of K of each.
template <std::size_t Rows, std::size_t Panels, class Fetcher>
TROUPE_VNNI static void vnni_int4(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                                  const Fetcher& fetcher, std::size_t k, __m512i (&sums)[Panels][Rows]) {
  constexpr std::size_t together = Panels < 2 ? Panels : 2;
  for (std::size_t r = 0; r < Rows; ++r)
    for (std::size_t p = 0; p < Panels; ++p)
      sums[p][r] = _mm512_setzero_si512();
  const std::size_t blocks = (k + block_k - 1) / block_k;
  for (std::size_t b = 0; b < blocks; b += 2) {
    const std::byte* far[Panels];
    for (std::size_t p = 0; p < Panels; ++p)
      far[p] = fetcher(p, b * int4_block_bytes);
#pragma GCC unroll 2
    for (std::size_t p = 0; p < Panels; p += together) {
      // Rows are loaded again for the next panels: keeping them would spill registers.
      __asm__ volatile("" ::: "memory");
      vnni_int4_block<Rows, together, Fetcher>(a, a_stride, first.next(p), b, k, far + p, 0, sums + p);
      if (b + 1 < blocks)
        vnni_int4_block<Rows, together, Fetcher>(a, a_stride, first.next(p), b + 1, k, far + p,
                                                 int4_block_bytes, sums + p);
#pragma GCC unroll 2
      for (std::size_t q = p; q < p + together; ++q) // lines of scales lie between steps
        Fetcher::template fetch_behind<2 * int4_block_bytes>(first.next(q).int4_block(b)
                                                             + 2 * int4_block_bytes);
    }
  }
}

template <std::size_t Rows, std::size_t Panels, class Fetcher>
TROUPE_VNNI static void vnni_block(const std::byte* a, std::size_t a_stride, const quant_panel& first,
                                   const Fetcher& fetcher, std::size_t k, float* c, std::size_t c_stride) {
  __m512i sums[Panels][Rows];
  if (first.format == packed_format::int8_channel)
    vnni_int8<Rows, Panels>(a, a_stride, first, fetcher, k, sums);
  else
    vnni_int4<Rows, Panels>(a, a_stride, first, fetcher, k, sums);
  for (std::size_t p = 0; p < Panels; ++p)
    for (std::size_t r = 0; r < Rows; ++r)
      store_integer_result(c + p * c_stride + r * 16, sums[p][r], a + r * a_stride, k,
                           first.scales + p * first.stride / sizeof(float));
}

/// Rows whose sums (nearly) fit into registers while N panels are read side by side.
constexpr std::size_t vnni_pass_rows(std::size_t panels) {
  return panels == 4 ? 6 : 8;
}

/// Up to N rows, all of K.
template <std::size_t Panels, class Fetcher>
static void vnni_pass(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& first,
                      const Fetcher& fetcher, std::size_t k, float* c, std::size_t c_stride) {
  with_row_count<vnni_pass_rows(Panels)>(
      rows, [&]<std::size_t Rows>() __attribute__((always_inline)) {
        vnni_block<Rows, Panels>(a, a_stride, first, fetcher, k, c, c_stride);
      });
}

/// Adjacent panels, and any number of rows.
template <std::size_t Panels, class Fetcher>
static void vnni_rows(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& first,
                      std::size_t panels, const upcoming_panels& next, std::size_t k, float* c) {
  const std::size_t c_stride = rows * 16;
  constexpr std::size_t most = vnni_pass_rows(Panels);
  const std::size_t passes = (rows + most - 1) / most;
  if constexpr (!std::is_same_v<Fetcher, weight_fetcher>) {
    if (passes == 1) {
      vnni_pass<Panels>(a, a_stride, rows, first, Fetcher(first, Panels, panels, k, next), k, c, c_stride);
      return;
    }
  }
  for (std::size_t pass = 0; pass < passes; ++pass) {
    const std::size_t row = pass * most;
    vnni_pass<Panels>(a + row * a_stride, a_stride, rows - row < most ? rows - row : most, first,
                      share_fetcher(first, Panels, panels, k, next, pass, passes), k, c + row * 16, c_stride);
  }
}

/// Processes all panels once for these rows, in up to `Most` streams.
template <std::size_t Most>
static void vnni_streams(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& first,
                         std::size_t panels, const upcoming_panels& next, std::size_t k, float* c) {
  const std::size_t c_stride = rows * 16;
  for_each_stream_step<Most>(
      first.weights, first.stride, first.weight_bytes(), panels, next,
      [&](auto streams, std::size_t panel, std::size_t distance, weight_fetcher fetcher) {
        quant_panel stream = first.next(panel);
        stream.stride *= distance;
        fetcher.with_scales(stream.layout);
        vnni_pass<streams>(a, a_stride, rows, stream, fetcher, k, c + panel * c_stride, distance * c_stride);
      });
}

/// Converts int4 to bytes once for all rows.
static void integer_unpacked_vnni(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                  const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                  std::size_t k, float* c) {
  std::size_t p = 0;
  for (; p + 2 <= panels; p += 2)
    vnni_unpacked<2>(a, a_stride, rows, first.next(p), panels - p, next, k, c + p * rows * 16);
  if (p < panels)
    vnni_unpacked<1>(a, a_stride, rows, first.next(p), 1, next, k, c + p * rows * 16);
}

/// With many rows fewer panels are side by side, so that more rows use each.
/// @tparam Fetcher  if rows use panels once: `weight_fetcher` or `group_fetcher`
template <class Fetcher>
static void integer_panels_vnni(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                                std::size_t k, float* c) {
  std::size_t p = 0;
  if constexpr (std::is_same_v<Fetcher, weight_fetcher>) {
    if (rows <= vnni_pass_rows(4)) {
      vnni_streams<4>(a, a_stride, rows, first, panels, next, k, c);
      return;
    }
    if (rows <= vnni_pass_rows(2)) {
      vnni_streams<2>(a, a_stride, rows, first, panels, next, k, c);
      return;
    }
  } else if (rows <= vnni_pass_rows(4)) {
    for (; p + 4 <= panels; p += 4)
      vnni_rows<4, Fetcher>(a, a_stride, rows, first.next(p), panels - p, next, k, c + p * rows * 16);
  }
  for (; p + 2 <= panels; p += 2)
    vnni_rows<2, Fetcher>(a, a_stride, rows, first.next(p), panels - p, next, k, c + p * rows * 16);
  if (p < panels)
    vnni_rows<1, Fetcher>(a, a_stride, rows, first.next(p), 1, next, k, c + p * rows * 16);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
