// int8 rows in the form for AVX2's int8 products. Included only by the kernels of AVX2.
//
// VPMADDUBSW adds two products in 16 bits and saturates. With weights made unsigned, w + 128 ≤ 255,
// neighbours x₁ and x₂ of a row fit while |x₁ + x₂| ≤ 128: 255 · 128 = 32,640. Neighbours of different signs
// always do. The few that do not are cut to ±64, and the cut-off parts are multiplied separately: the sums
// stay exact. (Magnitudes of weights times x with their signs always fit, but take one more instruction for
// every 32 products.)
#pragma once

#include <cstring>

#include "kernels/cpu/simd/simd.hpp"
#include "kernels/cpu/tables/quant_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Writes the narrow values, and their differences from the row's.
static void narrow_int8_row(std::byte* row, std::size_t k) {
  std::byte* narrow = row + int8_row_narrow(k);
  std::byte* fours = row + int8_row_wide(k) + sizeof(std::uint32_t);
  std::uint32_t count = 0;
  for (std::size_t i = 0; i < int8_row_sums(k); i += 32) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(row + i));
    const __m256i pairs = _mm256_maddubs_epi16(_mm256_set1_epi8(1), x);
    const __m256i wide_pairs = _mm256_cmpgt_epi16(_mm256_abs_epi16(pairs), _mm256_set1_epi16(128));
    const __m256i wide = _mm256_xor_si256(_mm256_cmpeq_epi32(wide_pairs, _mm256_setzero_si256()),
                                          _mm256_set1_epi32(-1)); // fours with a cut value
    const __m256i cut = _mm256_max_epi8(_mm256_min_epi8(x, _mm256_set1_epi8(64)), _mm256_set1_epi8(-64));
    const __m256i kept = _mm256_blendv_epi8(x, cut, wide);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(narrow + i), kept);
    alignas(32) std::int32_t rest[8];
    _mm256_store_si256(reinterpret_cast<__m256i*>(rest), _mm256_sub_epi8(x, kept));
    for (auto which = static_cast<unsigned>(_mm256_movemask_ps(_mm256_castsi256_ps(wide))); which != 0;
         which &= which - 1, ++count, fours += 8) {
      const auto four = static_cast<std::size_t>(__builtin_ctz(which));
      const auto weights = static_cast<std::uint32_t>((i + four * 4) * 16);
      std::memcpy(fours, &weights, sizeof weights);
      std::memcpy(fours + 4, &rest[four], sizeof rest[four]);
    }
  }
  std::memcpy(row + int8_row_wide(k), &count, sizeof count);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
