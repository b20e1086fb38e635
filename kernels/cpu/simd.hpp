// Vectors of one instruction set, behind the same few names. Included by
// isa_kernels.cpp only, which is compiled once per instruction set; everything
// lives in a namespace of that set, so that no code compiled for one can be
// linked into another.
//
// Every operation here is a single correctly rounded one (or exact), lane by
// lane: what is written with them gives the same bits for every width.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/bfloat16.hpp"
#include "kernels/tensor.hpp"

#if defined(TROUPE_ISA_AVX2) || defined(TROUPE_ISA_AVX512)
#  include <immintrin.h>
#endif

#if defined(TROUPE_ISA_AVX512)
#  define TROUPE_ISA_NAMESPACE isa_avx512
#elif defined(TROUPE_ISA_AVX2)
#  define TROUPE_ISA_NAMESPACE isa_avx2
#else
#  define TROUPE_ISA_NAMESPACE isa_portable
#endif

#define TROUPE_INLINE static inline __attribute__((always_inline))

/// A kernel that takes everything it calls into itself: what is done to 16 elements at a time stands there
/// twice, for whole blocks and for the rest of a row, and would otherwise be a call that tests which it is.
#define TROUPE_FLAT __attribute__((flatten)) static

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

#if defined(TROUPE_ISA_AVX512)

using vf = __m512;
using vi = __m512i;
constexpr std::size_t lanes = 16;

TROUPE_INLINE vf load(const float* p) {
  return _mm512_loadu_ps(p);
}

TROUPE_INLINE void store(float* p, vf x) {
  _mm512_storeu_ps(p, x);
}

TROUPE_INLINE vf set1(float x) {
  return _mm512_set1_ps(x);
}

TROUPE_INLINE vf add(vf a, vf b) {
  return _mm512_add_ps(a, b);
}

TROUPE_INLINE vf sub(vf a, vf b) {
  return _mm512_sub_ps(a, b);
}

TROUPE_INLINE vf mul(vf a, vf b) {
  return _mm512_mul_ps(a, b);
}

TROUPE_INLINE vf div(vf a, vf b) {
  return _mm512_div_ps(a, b);
}

TROUPE_INLINE vf fma(vf a, vf b, vf c) {
  return _mm512_fmadd_ps(a, b, c);
}

TROUPE_INLINE vf max(vf a, vf b) {
  return _mm512_max_ps(a, b);
}

TROUPE_INLINE vf min(vf a, vf b) {
  return _mm512_min_ps(a, b);
}

TROUPE_INLINE vf select_less(vf a, vf b, vf then, vf otherwise) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), otherwise, then);
}

TROUPE_INLINE vf absolute(vf a) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), _mm512_set1_epi32(0x7fffffff)));
}

TROUPE_INLINE vf power_of_two(vf n) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}

/// p · 2ⁿ for a result that is no denormal.
TROUPE_INLINE vf scale_by_power(vf p, vf n) {
  return _mm512_scalef_ps(p, n);
}

TROUPE_INLINE vi load_pairs(const void* p) {
  return _mm512_loadu_si512(p);
}

TROUPE_INLINE vf even_of(vi pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}

TROUPE_INLINE vf odd_of(vi pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xffff0000u))));
}

TROUPE_INLINE vf load_bf16(const bfloat16* p) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16));
}

// The rounded value in the upper half of each lane.
TROUPE_INLINE vi rounded_bits(vf x) {
  const vi bits = _mm512_castps_si512(x);
  const vi odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const vi rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const vi quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x00400000));
  return _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), rounded, quiet);
}

TROUPE_INLINE void store_bf16(bfloat16* p, vf x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded_bits(x), 16)));
}

TROUPE_INLINE vf round_to_bf16(vf x) {
  return odd_of(rounded_bits(x));
}

/// Rounds what arithmetic made, which is no denormal: the instruction takes those for zeros.
TROUPE_INLINE void store_result(bfloat16* p, vf x) {
#  if defined(TROUPE_NATIVE_BF16)
  __m256i rounded;
  __asm__("vcvtneps2bf16 %1, %0" : "=v"(rounded) : "v"(x));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
#  else
  store_bf16(p, x);
#  endif
}

#elif defined(TROUPE_ISA_AVX2)

using vf = __m256;
using vi = __m256i;
constexpr std::size_t lanes = 8;

TROUPE_INLINE vf load(const float* p) {
  return _mm256_loadu_ps(p);
}

TROUPE_INLINE void store(float* p, vf x) {
  _mm256_storeu_ps(p, x);
}

TROUPE_INLINE vf set1(float x) {
  return _mm256_set1_ps(x);
}

TROUPE_INLINE vf add(vf a, vf b) {
  return _mm256_add_ps(a, b);
}

TROUPE_INLINE vf sub(vf a, vf b) {
  return _mm256_sub_ps(a, b);
}

TROUPE_INLINE vf mul(vf a, vf b) {
  return _mm256_mul_ps(a, b);
}

TROUPE_INLINE vf div(vf a, vf b) {
  return _mm256_div_ps(a, b);
}

TROUPE_INLINE vf fma(vf a, vf b, vf c) {
  return _mm256_fmadd_ps(a, b, c);
}

TROUPE_INLINE vf max(vf a, vf b) {
  return _mm256_max_ps(a, b);
}

TROUPE_INLINE vf min(vf a, vf b) {
  return _mm256_min_ps(a, b);
}

TROUPE_INLINE vf select_less(vf a, vf b, vf then, vf otherwise) {
  return _mm256_blendv_ps(otherwise, then, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
}

TROUPE_INLINE vf absolute(vf a) {
  return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)));
}

TROUPE_INLINE vf power_of_two(vf n) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}

TROUPE_INLINE vf scale_by_power(vf p, vf n) {
  return mul(mul(p, power_of_two(sub(n, set1(1.0F)))), set1(2.0F));
}

TROUPE_INLINE vi load_pairs(const void* p) {
  return _mm256_loadu_si256(static_cast<const __m256i*>(p));
}

TROUPE_INLINE vf even_of(vi pairs) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(pairs, 16));
}

TROUPE_INLINE vf odd_of(vi pairs) {
  return _mm256_castsi256_ps(_mm256_and_si256(pairs, _mm256_set1_epi32(static_cast<int>(0xffff0000u))));
}

TROUPE_INLINE vf load_bf16(const bfloat16* p) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16));
}

// The rounded value in the upper half of each lane.
TROUPE_INLINE vi rounded_bits(vf x) {
  const vi bits = _mm256_castps_si256(x);
  const vi odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const vi rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const vi quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  return _mm256_blendv_epi8(rounded, quiet, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}

TROUPE_INLINE void store_bf16(bfloat16* p, vf x) {
  const vi halves = _mm256_srli_epi32(rounded_bits(x), 16);
  const vi packed = _mm256_permute4x64_epi64(_mm256_packus_epi32(halves, halves), 0x08);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm256_castsi256_si128(packed));
}

TROUPE_INLINE vf round_to_bf16(vf x) {
  return odd_of(rounded_bits(x));
}

#else

constexpr std::size_t lanes = 8;

struct vf {
  float v[lanes];
};

struct vi {
  std::uint32_t v[lanes];
};

template <class Function>
TROUPE_INLINE vf each(const Function& function) {
  vf r;
  for (std::size_t i = 0; i < lanes; ++i)
    r.v[i] = function(i);
  return r;
}

TROUPE_INLINE vf load(const float* p) {
  return each([&](std::size_t i) { return p[i]; });
}

TROUPE_INLINE void store(float* p, vf x) {
  std::memcpy(p, x.v, sizeof x.v);
}

TROUPE_INLINE vf set1(float x) {
  return each([&](std::size_t) { return x; });
}

TROUPE_INLINE vf add(vf a, vf b) {
  return each([&](std::size_t i) { return a.v[i] + b.v[i]; });
}

TROUPE_INLINE vf sub(vf a, vf b) {
  return each([&](std::size_t i) { return a.v[i] - b.v[i]; });
}

TROUPE_INLINE vf mul(vf a, vf b) {
  return each([&](std::size_t i) { return a.v[i] * b.v[i]; });
}

TROUPE_INLINE vf div(vf a, vf b) {
  return each([&](std::size_t i) { return a.v[i] / b.v[i]; });
}

TROUPE_INLINE vf fma(vf a, vf b, vf c) {
  return each([&](std::size_t i) { return std::fma(a.v[i], b.v[i], c.v[i]); });
}

// As x86 has it: the second operand where either is NaN or both are zero.
TROUPE_INLINE vf max(vf a, vf b) {
  return each([&](std::size_t i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}

TROUPE_INLINE vf min(vf a, vf b) {
  return each([&](std::size_t i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}

TROUPE_INLINE vf select_less(vf a, vf b, vf then, vf otherwise) {
  return each([&](std::size_t i) { return a.v[i] < b.v[i] ? then.v[i] : otherwise.v[i]; });
}

TROUPE_INLINE vf absolute(vf a) {
  return each([&](std::size_t i) {
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(a.v[i]) & 0x7fffffffu);
  });
}

TROUPE_INLINE vf power_of_two(vf n) {
  return each([&](std::size_t i) {
    const float whole = std::isnan(n.v[i]) ? 0.0F : n.v[i]; // what it multiplies is not a number then either
    return std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<std::int32_t>(whole) + 127) << 23);
  });
}

TROUPE_INLINE vf scale_by_power(vf p, vf n) {
  return mul(mul(p, power_of_two(sub(n, set1(1.0F)))), set1(2.0F));
}

TROUPE_INLINE vi load_pairs(const void* p) {
  vi r;
  std::memcpy(r.v, p, sizeof r.v);
  return r;
}

TROUPE_INLINE vf even_of(vi pairs) {
  return each([&](std::size_t i) { return std::bit_cast<float>(pairs.v[i] << 16); });
}

TROUPE_INLINE vf odd_of(vi pairs) {
  return each([&](std::size_t i) { return std::bit_cast<float>(pairs.v[i] & 0xffff0000u); });
}

TROUPE_INLINE vf load_bf16(const bfloat16* p) {
  return each([&](std::size_t i) { return to_float(p[i]); });
}

TROUPE_INLINE void store_bf16(bfloat16* p, vf x) {
  for (std::size_t i = 0; i < lanes; ++i)
    p[i] = to_bfloat16(x.v[i]);
}

TROUPE_INLINE vf round_to_bf16(vf x) {
  return each([&](std::size_t i) { return to_float(to_bfloat16(x.v[i])); });
}

#endif

#if !defined(TROUPE_ISA_AVX512)

/// Rounds what arithmetic made.
TROUPE_INLINE void store_result(bfloat16* p, vf x) {
  store_bf16(p, x);
}

#endif

/// Vectors in 16 lanes: the width in which sums over rows are defined.
constexpr std::size_t parts = 16 / lanes;

struct v16 {
  vf part[parts];
};

template <class Function>
TROUPE_INLINE v16 each_part(const Function& function) {
  v16 r;
  for (std::size_t i = 0; i < parts; ++i)
    r.part[i] = function(i);
  return r;
}

TROUPE_INLINE v16 splat(float x) {
  return each_part([&](std::size_t) { return set1(x); });
}

TROUPE_INLINE v16 load16(const float* p) {
  return each_part([&](std::size_t i) { return load(p + i * lanes); });
}

TROUPE_INLINE v16 load16(const bfloat16* p) {
  return each_part([&](std::size_t i) { return load_bf16(p + i * lanes); });
}

TROUPE_INLINE void store16(float* p, const v16& x) {
  for (std::size_t i = 0; i < parts; ++i)
    store(p + i * lanes, x.part[i]);
}

TROUPE_INLINE void store16(bfloat16* p, const v16& x) {
  for (std::size_t i = 0; i < parts; ++i)
    store_bf16(p + i * lanes, x.part[i]);
}

/// As `store16`, of what arithmetic made.
TROUPE_INLINE void store_result16(float* p, const v16& x) {
  store16(p, x);
}

TROUPE_INLINE void store_result16(bfloat16* p, const v16& x) {
  for (std::size_t i = 0; i < parts; ++i)
    store_result(p + i * lanes, x.part[i]);
}

/// The first `count` (< 16) elements, `fill` beyond.
template <class T>
TROUPE_INLINE v16 load_tail(const T* p, std::size_t count, float fill) {
  T values[16];
  for (std::size_t i = 0; i < 16; ++i) {
    if constexpr (sizeof(T) == 4)
      values[i] = i < count ? p[i] : fill;
    else
      values[i] = i < count ? p[i] : to_bfloat16(fill);
  }
  return load16(values);
}

template <class T>
TROUPE_INLINE void store_tail(T* p, std::size_t count, const v16& x) {
  T values[16];
  store16(values, x);
  for (std::size_t i = 0; i < count; ++i)
    p[i] = values[i];
}

TROUPE_INLINE v16 add(const v16& a, const v16& b) {
  return each_part([&](std::size_t i) { return add(a.part[i], b.part[i]); });
}

TROUPE_INLINE v16 sub(const v16& a, const v16& b) {
  return each_part([&](std::size_t i) { return sub(a.part[i], b.part[i]); });
}

TROUPE_INLINE v16 mul(const v16& a, const v16& b) {
  return each_part([&](std::size_t i) { return mul(a.part[i], b.part[i]); });
}

TROUPE_INLINE v16 div(const v16& a, const v16& b) {
  return each_part([&](std::size_t i) { return div(a.part[i], b.part[i]); });
}

TROUPE_INLINE v16 fma(const v16& a, const v16& b, const v16& c) {
  return each_part([&](std::size_t i) { return fma(a.part[i], b.part[i], c.part[i]); });
}

TROUPE_INLINE v16 max(const v16& a, const v16& b) {
  return each_part([&](std::size_t i) { return max(a.part[i], b.part[i]); });
}

#if defined(TROUPE_ISA_AVX2) || defined(TROUPE_ISA_AVX512)

// Lanes 8 apart have met: then 4, 2 and 1.
template <class Op>
TROUPE_INLINE float join(__m256 x, const Op& op) {
  const __m128 four = op(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
  const __m128 two = op(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(op(two, _mm_shuffle_ps(two, two, 1)));
}

TROUPE_INLINE __m256 low_half(const v16& x) {
#  if defined(TROUPE_ISA_AVX512)
  return _mm512_castps512_ps256(x.part[0]);
#  else
  return x.part[0];
#  endif
}

TROUPE_INLINE __m256 high_half(const v16& x) {
#  if defined(TROUPE_ISA_AVX512)
  return _mm512_extractf32x8_ps(x.part[0], 1);
#  else
  return x.part[1];
#  endif
}

/// The fixed tree: lanes 8 apart, then 4, 2 and 1.
TROUPE_INLINE float sum_of(const v16& x) {
  return join(_mm256_add_ps(low_half(x), high_half(x)), [](__m128 a, __m128 b) { return _mm_add_ps(a, b); });
}

TROUPE_INLINE float max_of(const v16& x) {
  return join(_mm256_max_ps(low_half(x), high_half(x)), [](__m128 a, __m128 b) { return _mm_max_ps(a, b); });
}

#else

/// The fixed tree: lanes 8 apart, then 4, 2 and 1.
TROUPE_INLINE float sum_of(const v16& x) {
  float v[16];
  store16(v, x);
  for (std::size_t step = 8; step != 0; step /= 2)
    for (std::size_t i = 0; i < step; ++i)
      v[i] += v[i + step];
  return v[0];
}

TROUPE_INLINE float max_of(const v16& x) {
  float v[16];
  store16(v, x);
  for (std::size_t step = 8; step != 0; step /= 2)
    for (std::size_t i = 0; i < step; ++i)
      v[i] = v[i] > v[i + step] ? v[i] : v[i + step];
  return v[0];
}

#endif

/// Calls `function(offset, count)` for every 16 elements of a row, the last
/// possibly fewer.
template <class Function>
TROUPE_INLINE void for_each_16(std::size_t count, const Function& function) {
  std::size_t i = 0;
  for (; i + 16 <= count; i += 16)
    function(i, std::size_t{16});
  if (i < count)
    function(i, count - i);
}

template <class T>
TROUPE_INLINE v16 load_some(const T* p, std::size_t count, float fill = 0.0F) {
  return count == 16 ? load16(p) : load_tail(p, count, fill);
}

template <class T>
TROUPE_INLINE void store_some(T* p, std::size_t count, const v16& x) {
  if (count == 16)
    store16(p, x);
  else
    store_tail(p, count, x);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
