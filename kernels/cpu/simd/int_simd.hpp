// The integer operations of one instruction set for unpacking and quantizing. Included only by the kernels of
// each instruction set.
#pragma once

#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

#if defined(TROUPE_ISA_AVX512)

template <int Bits>
TROUPE_INLINE vi shift_left(vi x) {
  return _mm512_slli_epi32(x, Bits);
}

template <int Bits>
TROUPE_INLINE vi shift_right(vi x) {
  return _mm512_srli_epi32(x, Bits);
}

TROUPE_INLINE vi mask_top_byte(vi x) {
  return _mm512_and_si512(x, _mm512_set1_epi32(static_cast<int>(0xff000000u)));
}

/// The signed byte in the top of each lane times 2²⁴; the rest of the lane is zero.
TROUPE_INLINE vf top_byte(vi x) {
  return _mm512_cvtepi32_ps(x);
}

/// 2²³ + the lowest four bits.
TROUPE_INLINE vf low_half_byte_float(vi x) {
  // (x & 0xf) | 0x4b000000
  return _mm512_castsi512_ps(
      _mm512_ternarylogic_epi32(x, _mm512_set1_epi32(0x0f), _mm512_set1_epi32(0x4b000000), 0xea));
}

TROUPE_INLINE vf load_int8(const std::byte* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}

TROUPE_INLINE vf from_int32(vi x) {
  return _mm512_cvtepi32_ps(x);
}

TROUPE_INLINE vi lane_bits(vf x) {
  return _mm512_castps_si512(x);
}

/// Values that BF16 holds exactly, as pairs.
TROUPE_INLINE void store_pairs(std::byte* p, vf even, vf odd) {
  _mm512_storeu_si512(p, _mm512_or_si512(_mm512_srli_epi32(lane_bits(even), 16), lane_bits(odd)));
}

/// The lowest byte of each lane, `lanes` bytes.
TROUPE_INLINE void store_low_bytes(std::byte* p, vi x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(x));
}

#elif defined(TROUPE_ISA_AVX2)

template <int Bits>
TROUPE_INLINE vi shift_left(vi x) {
  return _mm256_slli_epi32(x, Bits);
}

template <int Bits>
TROUPE_INLINE vi shift_right(vi x) {
  return _mm256_srli_epi32(x, Bits);
}

TROUPE_INLINE vi mask_top_byte(vi x) {
  return _mm256_and_si256(x, _mm256_set1_epi32(static_cast<int>(0xff000000u)));
}

/// The signed byte in the top of each lane times 2²⁴; the rest of the lane is zero.
TROUPE_INLINE vf top_byte(vi x) {
  return _mm256_cvtepi32_ps(x);
}

/// 2²³ + the lowest four bits.
TROUPE_INLINE vf low_half_byte_float(vi x) {
  return _mm256_castsi256_ps(
      _mm256_or_si256(_mm256_and_si256(x, _mm256_set1_epi32(0x0f)), _mm256_set1_epi32(0x4b000000)));
}

TROUPE_INLINE vf load_int8(const std::byte* p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}

TROUPE_INLINE vf from_int32(vi x) {
  return _mm256_cvtepi32_ps(x);
}

TROUPE_INLINE vi lane_bits(vf x) {
  return _mm256_castps_si256(x);
}

TROUPE_INLINE void store_pairs(std::byte* p, vf even, vf odd) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm256_or_si256(_mm256_srli_epi32(lane_bits(even), 16), lane_bits(odd)));
}

/// The lowest byte of each lane, `lanes` bytes.
TROUPE_INLINE void store_low_bytes(std::byte* p, vi x) {
  const __m256i first = _mm256_set1_epi32(0x0c080400);
  const __m256i bytes = _mm256_shuffle_epi8(x, first);
  const __m128i both = _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
  _mm_storel_epi64(reinterpret_cast<__m128i*>(p), both);
}

#else

template <class Function>
TROUPE_INLINE vi each_lane(const Function& function) {
  vi r;
  for (std::size_t i = 0; i < lanes; ++i)
    r.v[i] = function(i);
  return r;
}

template <int Bits>
TROUPE_INLINE vi shift_left(vi x) {
  return each_lane([&](std::size_t i) { return x.v[i] << Bits; });
}

template <int Bits>
TROUPE_INLINE vi shift_right(vi x) {
  return each_lane([&](std::size_t i) { return x.v[i] >> Bits; });
}

TROUPE_INLINE vi mask_top_byte(vi x) {
  return each_lane([&](std::size_t i) { return x.v[i] & 0xff000000u; });
}

TROUPE_INLINE vf from_int32(vi x) {
  return each([&](std::size_t i) { return static_cast<float>(static_cast<std::int32_t>(x.v[i])); });
}

/// The signed byte in the top of each lane times 2²⁴; the rest of the lane is zero.
TROUPE_INLINE vf top_byte(vi x) {
  return from_int32(x);
}

/// 2²³ + the lowest four bits.
TROUPE_INLINE vf low_half_byte_float(vi x) {
  return each([&](std::size_t i) { return std::bit_cast<float>((x.v[i] & 0x0fu) | 0x4b000000u); });
}

TROUPE_INLINE vf load_int8(const std::byte* p) {
  return each([&](std::size_t i) { return static_cast<float>(static_cast<std::int8_t>(p[i])); });
}

TROUPE_INLINE vi lane_bits(vf x) {
  return each_lane([&](std::size_t i) { return std::bit_cast<std::uint32_t>(x.v[i]); });
}

TROUPE_INLINE void store_pairs(std::byte* p, vf even, vf odd) {
  const vi pairs = each_lane([&](std::size_t i) {
    return std::bit_cast<std::uint32_t>(even.v[i]) >> 16 | std::bit_cast<std::uint32_t>(odd.v[i]);
  });
  std::memcpy(p, pairs.v, sizeof pairs.v);
}

/// The lowest byte of each lane, `lanes` bytes.
TROUPE_INLINE void store_low_bytes(std::byte* p, vi x) {
  for (std::size_t i = 0; i < lanes; ++i)
    p[i] = static_cast<std::byte>(x.v[i]);
}

#endif

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
