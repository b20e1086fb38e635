// Many int8 rows and int4 weights on AVX-512's dot products of bytes: weights are converted to bytes once for
// all rows. Included only by AVX-512's kernels.
#pragma once

#include "kernels/cpu/gemm/int8/int4_unpack.hpp"
#include "kernels/cpu/gemm/int8/rows.hpp"
#include "kernels/cpu/prefetch/weight_fetch.hpp"
#include "kernels/cpu/simd/row_blocks.hpp"

#define TROUPE_VNNI __attribute__((target("avx512vnni")))

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// K that is unpacked at a time: 16 KiB of two panels, which stay in L1 during all rows.
constexpr std::size_t unpacked_k = 512;
constexpr std::size_t unpacked_panels = 2;
constexpr std::size_t unpacked_panel_bytes = unpacked_k * 16;
constexpr std::size_t unpacked_pass_rows = 8; // rows whose sums fit into registers

/// `count` blocks of 32 of K of a panel from block `begin` on, in the layout of int8's panels, each byte 128
/// more.
static void unpack_unsigned(const quant_panel& panel, std::size_t begin, std::size_t count, std::byte* out) {
  for (std::size_t b = begin; b < begin + count; ++b, out += 2 * int4_block_bytes)
    unpack_int4_block<128>(panel, b, out, [](const std::byte*) {});
}

/// The weights that follow those being multiplied, prefetched into L2 a few lines at a time.
struct following_weights {
  const std::byte* panel[unpacked_panels] = {}; // null: none
  std::size_t bytes = 0;                        // of each
  std::size_t lines_of_step = 0;
};

/// Those of the same panels from `begin` of K on.
template <std::size_t Panels>
static following_weights weights_from(const quant_panel& first, std::size_t begin, std::size_t padded) {
  following_weights following;
  const std::size_t there = first.layout.bytes(begin / block_k);
  following.bytes = first.layout.bytes(smaller(begin + unpacked_k, padded) / block_k) - there;
  for (std::size_t p = 0; p < Panels; ++p)
    following.panel[p] = first.next(p).weights + there;
  return following;
}

/// The beginning of the next panels: of `panels` from `first` on, then of `next`.
template <std::size_t Panels>
static following_weights next_panels(const quant_panel& first, std::size_t panels,
                                     const upcoming_panels& next, std::size_t padded) {
  following_weights following;
  following.bytes = first.layout.bytes(smaller(unpacked_k, padded) / block_k);
  for (std::size_t p = 0; p < Panels; ++p)
    following.panel[p] = panel_behind(first.weights, first.stride, panels, next, p + Panels);
  return following;
}

/// Adds to the sums of `Rows` rows the products with `k` of K of the unpacked panels; `line` is where
/// prefetching continues.
template <std::size_t Rows, std::size_t Panels>
TROUPE_VNNI static void vnni_unpacked_rows(const std::byte* a, std::size_t a_stride, const std::byte* weights,
                                           std::size_t k, float* c, std::size_t c_stride,
                                           const following_weights& following, std::size_t& line) {
  __m512i sums[Panels][Rows];
#pragma GCC unroll 2
  for (std::size_t p = 0; p < Panels; ++p)
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r)
      sums[p][r] = _mm512_loadu_si512(c + p * c_stride + r * 16);
  for (std::size_t step = 0; step < k; step += 64) {
    for (std::size_t n = 0; n < following.lines_of_step && line < following.bytes; ++n, line += 64)
      for (const std::byte* panel : following.panel)
        if (panel != nullptr)
          _mm_prefetch(reinterpret_cast<const char*>(panel + line), _MM_HINT_T1);
#pragma GCC unroll 4
    for (std::size_t i = step; i < step + 64; i += 4) {
      __m512i w[Panels];
#pragma GCC unroll 2
      for (std::size_t p = 0; p < Panels; ++p)
        w[p] = _mm512_load_si512(weights + p * unpacked_panel_bytes + i * 16);
#pragma GCC unroll 8
      for (std::size_t r = 0; r < Rows; ++r) {
        const __m512i x = broadcast_bytes(a + r * a_stride + i);
#pragma GCC unroll 2
        for (std::size_t p = 0; p < Panels; ++p)
          sums[p][r] = _mm512_dpbusd_epi32(sums[p][r], w[p], x);
      }
    }
  }
#pragma GCC unroll 2
  for (std::size_t p = 0; p < Panels; ++p)
#pragma GCC unroll 8
    for (std::size_t r = 0; r < Rows; ++r)
      _mm512_storeu_si512(c + p * c_stride + r * 16, sums[p][r]);
}

/// Results of `Panels` int4 panels; their sums are kept in the place of the results.
template <std::size_t Panels>
static void vnni_unpacked(const std::byte* a, std::size_t a_stride, std::size_t rows,
                          const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                          std::size_t k, float* c) {
  alignas(64) std::byte weights[unpacked_panels * unpacked_panel_bytes];
  const std::size_t c_stride = rows * 16;
  const std::size_t padded = int8_row_sums(k);
  const std::size_t passes = (rows + unpacked_pass_rows - 1) / unpacked_pass_rows;
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t p = 0; p < Panels; ++p)
      _mm512_storeu_si512(c + p * c_stride + r * 16, _mm512_set1_epi32(row_correction(a + r * a_stride, k)));
  for (std::size_t begin = 0; begin < padded; begin += unpacked_k) {
    const std::size_t count = padded - begin < unpacked_k ? padded - begin : unpacked_k;
    for (std::size_t p = 0; p < Panels; ++p)
      unpack_unsigned(first.next(p), begin / block_k, count / block_k, weights + p * unpacked_panel_bytes);
    const std::size_t end = begin + count;
    following_weights following = end < padded ? weights_from<Panels>(first, end, padded)
                                               : next_panels<Panels>(first, panels, next, padded);
    const std::size_t steps = passes * (count / 64);
    following.lines_of_step = (following.bytes / 64 + steps - 1) / steps;
    std::size_t line = 0;
    for (std::size_t row = 0; row < rows; row += unpacked_pass_rows) {
      const std::size_t some = rows - row < unpacked_pass_rows ? rows - row : unpacked_pass_rows;
      with_row_count<unpacked_pass_rows>(
          some, [&]<std::size_t Rows>() __attribute__((always_inline)) {
            vnni_unpacked_rows<Rows, Panels>(a + row * a_stride + begin, a_stride, weights, count,
                                             c + row * 16, c_stride, following, line);
          });
    }
  }
  for (std::size_t p = 0; p < Panels; ++p)
    for (std::size_t r = 0; r < rows; ++r) {
      float* out = c + p * c_stride + r * 16;
      store_integer_result(out, _mm512_loadu_si512(out), a + r * a_stride, k,
                           first.scales + p * first.stride / sizeof(float));
    }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
