// Exact integer products of int8 rows with quantized weights, for sets without a kernel of their own: the
// portable reference, and AVX-512 without dot products of bytes. Included only by isa_kernels.cpp and
// avx512_bf16_kernels.cpp.
#pragma once

#include "kernels/cpu/gemm/int8/rows.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

#if defined(TROUPE_ISA_AVX512)

TROUPE_INLINE vi set1_int(std::int32_t x) {
  return _mm512_set1_epi32(x);
}

TROUPE_INLINE vi add_int(vi a, vi b) {
  return _mm512_add_epi32(a, b);
}

TROUPE_INLINE vi mul_int(vi a, vi b) {
  return _mm512_mullo_epi32(a, b);
}

/// sum + Σ of four products of unsigned bytes below 16 and signed bytes: their pairs stay inside 16 bits.
TROUPE_INLINE vi dot_half_bytes(vi sum, vi w, vi x) {
  return _mm512_add_epi32(sum, _mm512_madd_epi16(_mm512_maddubs_epi16(w, x), _mm512_set1_epi16(1)));
}

/// sum + Σ of four products of signed bytes, |w| ≤ 127, |x| ≤ 127: |w| times x with w's sign, so that pairs
/// stay inside 16 bits (127 · 127 · 2 = 32,258).
struct signed_bytes {
  vi magnitude;
  __mmask64 negative;

  explicit signed_bytes(vi w) : magnitude(_mm512_abs_epi8(w)), negative(_mm512_movepi8_mask(w)) {}

  __attribute__((always_inline)) vi dot(vi sum, vi x) const {
    const vi flipped = _mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x);
    return _mm512_add_epi32(
        sum, _mm512_madd_epi16(_mm512_maddubs_epi16(magnitude, flipped), _mm512_set1_epi16(1)));
  }
};

#else

TROUPE_INLINE vi set1_int(std::int32_t x) {
  return each_lane([&](std::size_t) { return static_cast<std::uint32_t>(x); });
}

TROUPE_INLINE vi add_int(vi a, vi b) {
  return each_lane([&](std::size_t i) { return a.v[i] + b.v[i]; });
}

TROUPE_INLINE vi mul_int(vi a, vi b) {
  return each_lane([&](std::size_t i) { return a.v[i] * b.v[i]; });
}

TROUPE_INLINE std::uint32_t dot_bytes(std::uint32_t w, std::uint32_t x) {
  std::int32_t sum = 0;
  for (unsigned shift = 0; shift < 32; shift += 8)
    sum += static_cast<std::int8_t>(w >> shift & 0xff) * static_cast<std::int8_t>(x >> shift & 0xff);
  return static_cast<std::uint32_t>(sum);
}

TROUPE_INLINE vi dot_half_bytes(vi sum, vi w, vi x) {
  return each_lane([&](std::size_t i) { return sum.v[i] + dot_bytes(w.v[i], x.v[i]); });
}

struct signed_bytes {
  vi weights;

  explicit signed_bytes(vi w) : weights(w) {}

  vi dot(vi sum, vi x) const { return dot_half_bytes(sum, weights, x); }
};

#endif

constexpr std::size_t integer_rows = lanes == 16 ? 8 : 4;

template <std::size_t Rows>
TROUPE_INLINE void integer_int8(const std::byte* a, std::size_t a_stride, const quant_panel& panel,
                                std::size_t k, float* c) {
  for (std::size_t column = 0; column < 16; column += lanes) {
    vi sums[Rows];
    for (std::size_t r = 0; r < Rows; ++r)
      sums[r] = set1_int(0);
    const std::byte* from = panel.weights + column * 4;
    for (std::size_t i = 0; i < k; i += 4, from += 64) {
      const signed_bytes weights(load_pairs(from));
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        sums[r] = weights.dot(sums[r], broadcast_bytes(a + r * a_stride + i));
    }
    for (std::size_t r = 0; r < Rows; ++r)
      store_integer_result(c + r * 16 + column, sums[r], a + r * a_stride, k, panel.scales + column);
  }
}

template <std::size_t Rows>
TROUPE_INLINE void integer_int4(const std::byte* a, std::size_t a_stride, const quant_panel& panel,
                                std::size_t k, float* c) {
  for (std::size_t column = 0; column < 16; column += lanes) {
    vi sums[Rows];
    for (std::size_t r = 0; r < Rows; ++r)
      sums[r] = set1_int(0);
    for (std::size_t b = 0; b * block_k < k; ++b) {
      const std::byte* from = panel.int4_block(b) + column * 4;
      vi block[Rows];
      for (std::size_t r = 0; r < Rows; ++r)
        block[r] = set1_int(block_offsets(a + r * a_stride, k)[b]);
      for (std::size_t i = b * block_k; i < (b + 1) * block_k; i += 8, from += 64) {
        const vi bytes = load_pairs(from);
        const vi low = low_half_bytes(bytes);
        const vi high = high_half_bytes(bytes);
#pragma GCC unroll 16
        for (std::size_t r = 0; r < Rows; ++r) {
          const std::byte* x = a + r * a_stride + i;
          block[r] = dot_half_bytes(block[r], low, broadcast_bytes(x));
          block[r] = dot_half_bytes(block[r], high, broadcast_bytes(x + 4));
        }
      }
      if (!panel.has_groups()) {
        for (std::size_t r = 0; r < Rows; ++r)
          sums[r] = add_int(sums[r], block[r]);
        continue;
      }
      const vi g = load_int8_int(panel.group_scales_of(b) + column);
      for (std::size_t r = 0; r < Rows; ++r)
        sums[r] = add_int(sums[r], mul_int(block[r], g));
    }
    for (std::size_t r = 0; r < Rows; ++r)
      store_integer_result(c + r * 16 + column, sums[r], a + r * a_stride, k, panel.scales + column);
  }
}

template <std::size_t Rows>
static void integer_block(const std::byte* a, std::size_t a_stride, const quant_panel& panel, std::size_t k,
                          float* c) {
  if (panel.format == packed_format::int8_channel)
    integer_int8<Rows>(a, a_stride, panel, k, c);
  else
    integer_int4<Rows>(a, a_stride, panel, k, c);
}

static void integer_rows_of_panel(const std::byte* a, std::size_t a_stride, std::size_t rows,
                                  const quant_panel& panel, std::size_t k, float* c) {
  std::size_t row = 0;
  for (; row + integer_rows <= rows; row += integer_rows)
    integer_block<integer_rows>(a + row * a_stride, a_stride, panel, k, c + row * 16);
  for (; row + 2 <= rows; row += 2)
    integer_block<2>(a + row * a_stride, a_stride, panel, k, c + row * 16);
  if (row < rows)
    integer_block<1>(a + row * a_stride, a_stride, panel, k, c + row * 16);
}

static void integer_panels(const std::byte* a, std::size_t a_stride, std::size_t rows,
                           const quant_panel& first, std::size_t panels, const upcoming_panels&,
                           std::size_t k, float* c) {
  for (std::size_t p = 0; p < panels; ++p)
    integer_rows_of_panel(a, a_stride, rows, first.next(p), k, c + p * rows * 16);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
