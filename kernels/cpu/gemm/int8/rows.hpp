// int8 rows, and common parts of their products with quantized weights. Included only by the kernels of each
// instruction set.
//
// The sums of products are integers, so every instruction set may add in any order.
#pragma once

#include "kernels/cpu/gemm/quantized_fma.hpp"
#if defined(TROUPE_ISA_AVX2)
#  include "kernels/cpu/gemm/int8/narrow_rows_avx2.hpp"
#endif

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// A row below this counts as zeros: the inverse of its scale would leave FP32's normal range.
constexpr float smallest_row = 0x1p-100F;

/// The factors that convert a row to int8, from its largest |x|.
struct row_scaling {
  float inverse = 0.0F;
  float scale = 0.0F;
};

/// @param poison  0; NaN if the row holds a NaN or an infinity
TROUPE_INLINE row_scaling row_scaling_of(float max, float poison) {
  if (max < smallest_row)
    return {0.0F, 0.0F + poison};
  return {127.0F / max, max / 127.0F + poison};
}

// 1.5 · 2²³: adding it rounds to the nearest integer, ties to even, and leaves that integer in the low byte.
// No |x| exceeds the row's largest, so no value exceeds 127 (1 + 2⁻²³). A row with a NaN or an infinity gets
// arbitrary bytes, and a scale that hides them.
TROUPE_INLINE void store_quantized(std::byte* out, const v16& x, const v16& inverse) {
  for (std::size_t i = 0; i < parts; ++i)
    store_low_bytes(out + i * lanes, lane_bits(add(mul(x.part[i], inverse.part[i]), set1(12582912.0F))));
}

/// Σ of 32 values.
TROUPE_INLINE std::int32_t block_sum(const std::int8_t* values) {
#if defined(TROUPE_ISA_AVX512) || defined(TROUPE_ISA_AVX2)
  // Sums of eight unsigned bytes: 128 too much each.
  const __m256i bytes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values));
  const __m256i sums = _mm256_sad_epu8(_mm256_xor_si256(bytes, _mm256_set1_epi8(static_cast<char>(0x80))),
                                       _mm256_setzero_si256());
  const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  return _mm_cvtsi128_si32(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two))) - 128 * 32;
#else
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < block_k; ++i)
    sum += values[i];
  return sum;
#endif
}

/// Writes sums and scale after the int8 values.
static void finish_int8_row(std::byte* row, std::size_t k, float scale) {
  const std::size_t padded = int8_row_sums(k);
  std::memset(row + k, 0, padded - k);
  const auto* values = reinterpret_cast<const std::int8_t*>(row);
  auto* sums = reinterpret_cast<std::int32_t*>(row + padded);
  std::int32_t total = 0;
  for (std::size_t b = 0; b < padded / block_k; ++b) {
    const std::int32_t sum = block_sum(values + b * block_k);
#if defined(TROUPE_ISA_AVX2)
    sums[b] = -8 * sum
              // Initial value of a group's two parts of 16 bits (`gemm/int8/maddubs_loops_avx2.hpp`).
              & 0xffff;
#else
    sums[b] = -8 * sum;
#endif
    total += sum;
  }
  std::memcpy(row + int8_row_scale(k), &scale, sizeof scale);
  std::memcpy(row + int8_row_scale(k) + sizeof scale, &total, sizeof total);
}

template <class T>
static void quantize_values(const T* row, std::size_t k, std::byte* out) {
  v16 most = splat(0.0F);
  v16 zeros = splat(0.0F);
  for_each_16(k, [&](std::size_t i, std::size_t n) {
    const v16 x = load_some(row + i, n);
    most = max(each_part([&](std::size_t p) { return absolute(x.part[p]); }), most);
    zeros = fma(x, splat(0.0F), zeros);
  });
  const row_scaling scaling = row_scaling_of(max_of(most), sum_of(zeros));
  const v16 inverse = splat(scaling.inverse);
  for_each_16(k, [&](std::size_t i, std::size_t n) {
    // A full store past the end stays inside the row's memory and is overwritten by the padding.
    store_quantized(out + i, load_some(row + i, n), inverse);
  });
  finish_int8_row(out, k, scaling.scale);
#if defined(TROUPE_ISA_AVX2)
  narrow_int8_row(out, k);
#endif
}

TROUPE_FLAT void quantize_row(const std::byte* row, dtype type, std::size_t k, std::byte* out) {
  if (type == dtype::f32)
    quantize_values(reinterpret_cast<const float*>(row), k, out);
  else
    quantize_values(reinterpret_cast<const bfloat16*>(row), k, out);
}

/// Writes c from the sums of one row over `lanes` columns.
TROUPE_INLINE void store_integer_result(float* c, vi sum, const std::byte* row, std::size_t k,
                                        const float* scales) {
  float scale = 0.0F;
  std::memcpy(&scale, row + int8_row_scale(k), sizeof scale);
  store(c, mul(mul(from_int32(sum), set1(scale)), load(scales)));
}

TROUPE_INLINE std::int32_t row_sum(const std::byte* row, std::size_t k) {
  std::int32_t sum = 0;
  std::memcpy(&sum, row + int8_row_scale(k) + sizeof(float), sizeof sum);
  return sum;
}

/// −128 Σ x of the row: compensates for weights with 128 added. Like all sums here it is correct modulo 2³²,
/// and may wrap: only the finished sum must fit.
TROUPE_INLINE std::int32_t row_correction(const std::byte* row, std::size_t k) {
  return static_cast<std::int32_t>(0U - 128U * static_cast<std::uint32_t>(row_sum(row, k)));
}

/// −8 Σ x of every 32 of K: compensates for half bytes, which are q + 8.
TROUPE_INLINE const std::int32_t* block_offsets(const std::byte* row, std::size_t k) {
  return reinterpret_cast<const std::int32_t*>(row + int8_row_sums(k));
}

#if defined(TROUPE_ISA_AVX512) || defined(TROUPE_ISA_AVX2)

// Four bytes of a row in every lane.
TROUPE_INLINE vi broadcast_bytes(const std::byte* p) {
  std::int32_t four = 0;
  std::memcpy(&four, p, sizeof four);
#  if defined(TROUPE_ISA_AVX512)
  return _mm512_set1_epi32(four);
#  else
  return _mm256_set1_epi32(four);
#  endif
}

#endif

#if defined(TROUPE_ISA_AVX512)

TROUPE_INLINE vi load_int8_int(const std::byte* p) {
  return _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

TROUPE_INLINE vi low_half_bytes(vi x) {
  return _mm512_and_si512(x, _mm512_set1_epi8(0x0f));
}

TROUPE_INLINE vi high_half_bytes(vi x) {
  return _mm512_and_si512(_mm512_srli_epi16(x, 4), _mm512_set1_epi8(0x0f));
}

#elif defined(TROUPE_ISA_AVX2)

TROUPE_INLINE vi load_int8_int(const std::byte* p) {
  return _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
}

TROUPE_INLINE vi low_half_bytes(vi x) {
  return _mm256_and_si256(x, _mm256_set1_epi8(0x0f));
}

TROUPE_INLINE vi high_half_bytes(vi x) {
  // The mask comes first: it takes its operand from memory.
  return _mm256_srli_epi16(_mm256_and_si256(x, _mm256_set1_epi8(static_cast<char>(0xf0))), 4);
}

#else

TROUPE_INLINE vi load_int8_int(const std::byte* p) {
  return each_lane([&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<std::int32_t>(static_cast<std::int8_t>(p[i])));
  });
}

TROUPE_INLINE vi broadcast_bytes(const std::byte* p) {
  std::uint32_t four = 0;
  std::memcpy(&four, p, sizeof four);
  return each_lane([&](std::size_t) { return four; });
}

TROUPE_INLINE vi low_half_bytes(vi x) {
  return each_lane([&](std::size_t i) { return x.v[i] & 0x0f0f0f0fu; });
}

TROUPE_INLINE vi high_half_bytes(vi x) {
  return each_lane([&](std::size_t i) { return x.v[i] >> 4 & 0x0f0f0f0fu; });
}

#endif

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
