// Many int8 rows, in tiles, with quantized weights on AMX. Included only by amx_kernels.cpp.
//
// Sums are exact integers; rows, scales and results equal those of gemm/int8/rows.hpp bit by bit.
#pragma once

#include <bit>

#include "kernels/cpu/gemm/int8/row_tiles_amx.hpp"
#include "kernels/cpu/gemm/int8/rows.hpp"
#include "kernels/cpu/gemm/tiles_amx.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

static void int8_tiles(const tile_product& p) {
  multiply_tiles<true>(p);
}

/// c = (float(c as int32) · row scale) · channel scale.
static void scale_int8_tiles(const float* channel_scales, const std::byte* a, std::size_t a_stride,
                             std::size_t rows, std::size_t k, float* c) {
  const vf channels = load(channel_scales);
  const std::size_t scales = int8_row_sums(k) * tile_rows;
  for (std::size_t r = 0; r < rows; ++r, c += 16) {
    const auto* row_scales = reinterpret_cast<const float*>(a + r / tile_rows * a_stride + scales);
    store(c, mul(mul(from_int32(_mm512_loadu_si512(c)), set1(row_scales[r % tile_rows])), channels));
  }
}

template <class T>
TROUPE_INLINE row_scaling scaling_of_any_row(const T* row, std::size_t k) {
  v16 most = splat(0.0F);
  v16 zeros = splat(0.0F);
  for_each_16(k, [&](std::size_t i, std::size_t n) {
    const v16 x = load_some(row + i, n);
    most = max(v16{{absolute(x.part[0])}}, most);
    zeros = fma(x, splat(0.0F), zeros);
  });
  return row_scaling_of(max_of(most), sum_of(zeros));
}

TROUPE_INLINE row_scaling scaling_of_row(const float* row, std::size_t k) {
  return scaling_of_any_row(row, k);
}

/// The largest magnitude of BF16 numbers is also the largest as an integer, 32 at a time; a row with a NaN or
/// an infinity uses the function above.
TROUPE_INLINE row_scaling scaling_of_row(const bfloat16* row, std::size_t k) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __m512i most = _mm512_setzero_si512();
  for (std::size_t i = 0; i < k; i += 32) {
    const __mmask32 there = k - i < 32 ? (1U << (k - i)) - 1 : 0xffffffffU;
    most = _mm512_max_epu16(most, _mm512_and_si512(_mm512_maskz_loadu_epi16(there, row + i), magnitude));
  }
  const unsigned bits = _mm512_reduce_max_epu32(
      _mm512_max_epu32(_mm512_slli_epi32(most, 16), _mm512_andnot_si512(_mm512_set1_epi32(0xffff), most)));
  if (bits >= 0x7f800000)
    return scaling_of_any_row(row, k);
  return row_scaling_of(std::bit_cast<float>(bits), 0.0F);
}

template <class T>
static void quantize_tile_row(const T* row, std::size_t k, std::byte* out, float* scale) {
  constexpr std::size_t tile_k = 64;
  const row_scaling scaling = scaling_of_row(row, k);
  const v16 inverse = splat(scaling.inverse);
  const auto place = [&](std::size_t i) { return out + i / tile_k * tile_bytes + i % tile_k; };
  for_each_16(
      k, [&](std::size_t i, std::size_t n) { store_quantized(place(i), load_some(row + i, n), inverse); });
  for (std::size_t i = (k + 15) / 16 * 16; i < int8_row_sums(k); i += 16)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(place(i)), _mm_setzero_si128());
  *scale = scaling.scale;
}

TROUPE_FLAT void quantize_row_tiles(const std::byte* row, dtype type, std::size_t k, std::byte* out,
                                    float* scale) {
  if (type == dtype::f32)
    quantize_tile_row(reinterpret_cast<const float*>(row), k, out, scale);
  else
    quantize_tile_row(reinterpret_cast<const bfloat16*>(row), k, out, scale);
}

static void unpack_int4(const quant_panel& panel, std::size_t k, std::byte* out) {
  for (std::size_t i = 0; i < int8_row_sums(k); i += int8_tile_k)
    unpack_int4_tile<false>(panel, i, out + i * 16, nullptr);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
