// Sixteen FP32 numbers, in as many vectors as needed: the width for which sums over rows are defined.
// Included only by the kernels of each instruction set, like simd.hpp.
#pragma once

#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

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

/// As `store16`, for results of arithmetic.
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
  for (std::size_t i = 0; i < 16; ++i)
    if constexpr (sizeof(T) == 4)
      values[i] = i < count ? p[i] : fill;
    else
      values[i] = i < count ? p[i] : to_bfloat16(fill);
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

// Lanes 8 apart are joined already; then 4, 2 and 1.
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

/// Calls `function(offset, count)` for every 16 elements of a row; the last call may have fewer.
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
