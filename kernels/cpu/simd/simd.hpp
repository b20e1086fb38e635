// Vectors of each instruction set under common names. Included only by the kernels of each instruction set:
// isa_kernels.cpp and the sources that add to it, which are compiled with that set's flags. Everything lives
// in a namespace of that set, so that no code compiled for one can be linked into another.
//
// Every operation here is a single correctly rounded (or exact) one, lane by lane. Code written with them
// gives the same bits for every width.
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

#if defined(TROUPE_EMULATED_TILES) // those of a test
#  define TROUPE_ISA_NAMESPACE isa_emulated_amx
#elif defined(TROUPE_ISA_AVX512)
#  define TROUPE_ISA_NAMESPACE isa_avx512
#elif defined(TROUPE_ISA_AVX2)
#  define TROUPE_ISA_NAMESPACE isa_avx2
#else
#  define TROUPE_ISA_NAMESPACE isa_portable
#endif

#define TROUPE_INLINE static inline __attribute__((always_inline))

/// Inlines everything that the kernel calls. The body for 16 elements exists twice, for whole blocks and for
/// the rest of a row, and must not become a call.
#define TROUPE_FLAT __attribute__((flatten)) static

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

// Replaces the standard library's: a copy of a template that is compiled with this unit's flags could be
// linked where any processor runs it.
TROUPE_INLINE std::size_t smaller(std::size_t a, std::size_t b) {
  return a < b ? a : b;
}

TROUPE_INLINE std::size_t larger(std::size_t a, std::size_t b) {
  return a > b ? a : b;
}

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

/// p · 2ⁿ for a result that is not denormal.
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

/// Two vectors rounded to 32 words, if the processor has the instruction. Only for results of arithmetic,
/// which are not denormal: the instruction treats denormals as zeros.
TROUPE_INLINE vi rounded_words(vf low, vf high) {
  vi words;
  __asm__("vcvtne2ps2bf16 %2, %1, %0" : "=v"(words) : "v"(high), "v"(low));
  return words;
}

/// Rounds results of arithmetic, which are not denormal: the instruction treats denormals as zeros.
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

// As on x86: the second operand if either is NaN or both are zero.
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
    const float whole = std::isnan(n.v[i]) ? 0.0F : n.v[i]; // the product is NaN in any case
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

/// Rounds results of arithmetic.
TROUPE_INLINE void store_result(bfloat16* p, vf x) {
  store_bf16(p, x);
}

#endif

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
