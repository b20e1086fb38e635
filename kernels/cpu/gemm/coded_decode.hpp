// Decodes BF16 weights with coded exponents (kernels/coded_bf16.hpp) to packed pairs, for tiles and for
// products without a kernel for coded weights.
#pragma once

#include "kernels/coded_bf16.hpp"
#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

constexpr std::size_t coded_line_bytes = 64;
constexpr std::size_t pairs_block_bytes = 16 * coded_line_bytes;

/// Writes the exponents of the exceptions of block `block`; `word(k, column)` is the address of a weight of
/// the block. Returns the next exception.
template <class Word>
TROUPE_INLINE const std::uint32_t* patch_exceptions(const std::uint32_t* exception, std::size_t block,
                                                    const Word& word) {
  for (; block_of(*exception) == block; ++exception) {
    const std::size_t position = *exception >> 8;
    std::uint16_t* to = word(position / 16 % 32, position % 16);
    *to = static_cast<std::uint16_t>((*to & 0x807fU) | (*exception & 0xffU) << 7);
  }
  return exception;
}

/// The same for a block of packed pairs.
TROUPE_INLINE const std::uint32_t* patch_pairs(const std::uint32_t* exception, std::size_t block,
                                               std::byte* pairs) {
  return patch_exceptions(exception, block, [&](std::size_t k, std::size_t column) {
    return reinterpret_cast<std::uint16_t*>(pairs) + (k / 2 * 16 + column) * 2 + k % 2;
  });
}

#if defined(TROUPE_ISA_AVX512)

/// Exponents by their codes.
struct exponent_table {
  vi words;

  __attribute__((always_inline)) explicit exponent_table(const std::byte* panel) : words(load_pairs(panel)) {}

  /// For the codes at bit `Shift` in each word.
  template <int Shift>
  inline __attribute__((always_inline)) vi of(vi codes) const {
    return _mm512_permutexvar_epi16(_mm512_srli_epi16(codes, Shift), words);
  }

  inline __attribute__((always_inline)) static vi with(vi exponents, vi signs_and_mantissas) {
    // (signs_and_mantissas & 0x807f) | exponents
    return _mm512_ternarylogic_epi32(signs_and_mantissas, _mm512_set1_epi16(static_cast<short>(0x807f)),
                                     exponents, 0xea);
  }

  template <int Bits>
  inline __attribute__((always_inline)) static vi rotated_left(vi x) {
    return _mm512_rol_epi32(x, Bits);
  }
};

#elif defined(TROUPE_ISA_AVX2)

struct exponent_table {
  vi low; // bytes, the same in both halves
  vi high;

  __attribute__((always_inline)) explicit exponent_table(const std::byte* panel) {
    const vi words = load_pairs(panel);
    const vi mask = _mm256_set1_epi16(0xff);
    const auto in_both = [](vi bytes) { return _mm256_permute4x64_epi64(bytes, 0x88); };
    // Packing puts half of the table into a half's first eight bytes.
    low = in_both(_mm256_packus_epi16(_mm256_and_si256(words, mask), _mm256_setzero_si256()));
    high = in_both(_mm256_packus_epi16(_mm256_srli_epi16(words, 8), _mm256_setzero_si256()));
  }

  template <int Shift>
  inline __attribute__((always_inline)) vi of(vi codes) const {
    const vi code = _mm256_and_si256(_mm256_srli_epi16(codes, Shift), _mm256_set1_epi16(0xf));
    const vi bytes = _mm256_or_si256(code, _mm256_slli_epi16(code, 8));
    return _mm256_blendv_epi8(_mm256_shuffle_epi8(low, bytes), _mm256_shuffle_epi8(high, bytes),
                              _mm256_set1_epi16(static_cast<short>(0xff00)));
  }

  inline __attribute__((always_inline)) static vi with(vi exponents, vi signs_and_mantissas) {
    return _mm256_or_si256(
        _mm256_and_si256(signs_and_mantissas, _mm256_set1_epi16(static_cast<short>(0x807f))), exponents);
  }

  template <int Bits>
  inline __attribute__((always_inline)) static vi rotated_left(vi x) {
    return _mm256_or_si256(_mm256_slli_epi32(x, Bits), _mm256_srli_epi32(x, 32 - Bits));
  }
};

#endif

#if defined(TROUPE_ISA_AVX512) || defined(TROUPE_ISA_AVX2)

/// Two vectors of four k: (k, k + 2) with k in the upper halves, and (k + 1, k + 3).
template <int FirstCode>
TROUPE_INLINE void coded_quarter(const exponent_table& exponents, vi codes, vi rest, vi& even, vi& odd) {
  even = exponent_table::with(exponents.of<FirstCode>(codes), rest);
  odd = exponent_table::with(exponents.of<FirstCode + 4>(codes), exponent_table::rotated_left<8>(rest));
}

/// Packed pairs (k, k + 1) and (k + 2, k + 3) of the four k whose first has code `FirstCode`.
template <int FirstCode>
TROUPE_INLINE void decode_pairs(const exponent_table& exponents, vi codes, vi rest, std::byte* to) {
  vi even;
  vi odd;
#  if defined(TROUPE_ISA_AVX512)
  // With swapped halves, which costs nothing: a code is looked up by the lowest bits of its word.
  even = exponent_table::with(exponents.of<FirstCode>(codes), rest);
  odd = exponent_table::with(exponents.of<0>(exponent_table::rotated_left<12 - FirstCode>(codes)),
                             exponent_table::rotated_left<24>(rest));
  constexpr __mmask32 upper = 0xaaaaaaaa;
  _mm512_storeu_si512(to, exponent_table::rotated_left<16>(_mm512_mask_blend_epi16(upper, odd, even)));
  _mm512_storeu_si512(to + coded_line_bytes, _mm512_mask_blend_epi16(upper, even, odd));
#  else
  coded_quarter<FirstCode>(exponents, codes, rest, even, odd);
  const auto store = [](std::byte* at, vi x) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), x); };
  store(to, _mm256_blend_epi16(_mm256_srli_epi32(even, 16), odd, 0xaa));
  store(to + coded_line_bytes, _mm256_blend_epi16(even, _mm256_slli_epi32(odd, 16), 0xaa));
#  endif
}

/// Eight k of a coded panel as pairs, without exceptions: 192 bytes become 256.
TROUPE_INLINE void decode_group(const exponent_table& exponents, const std::byte* group, std::byte* to) {
  for (std::size_t at = 0; at < coded_line_bytes; at += lanes * 4) {
    const vi codes = load_pairs(group + at);
    decode_pairs<0>(exponents, codes, load_pairs(group + coded_line_bytes + at), to + at);
    decode_pairs<8>(exponents, codes, load_pairs(group + 2 * coded_line_bytes + at),
                    to + 2 * coded_line_bytes + at);
  }
}

constexpr std::size_t decoded_group_bytes = 256;
constexpr std::size_t groups_of_block = coded_block_bytes / coded_group_bytes;

static void decode_bf16(const std::byte* panel, std::size_t panel_blocks, std::size_t first,
                        std::size_t count, std::byte* out) {
  const exponent_table exponents(panel);
  const std::byte* group = panel + coded_header_bytes(panel_blocks) + first * coded_block_bytes;
  const std::uint32_t* exception = exceptions_from(panel, first);
  for (std::size_t b = first; b < first + count; ++b, out += pairs_block_bytes) {
    for (std::size_t g = 0; g < groups_of_block; ++g, group += coded_group_bytes)
      decode_group(exponents, group, out + g * decoded_group_bytes);
    exception = patch_pairs(exception, b, out);
  }
}

#else

static void decode_bf16(const std::byte* panel, std::size_t panel_blocks, std::size_t first,
                        std::size_t count, std::byte* out) {
  auto* to = reinterpret_cast<bfloat16*>(out);
  for (std::size_t k = first * 32; k < (first + count) * 32; k += 2, to += 32)
    for (std::size_t column = 0; column < 16; ++column) {
      to[2 * column] = decoded(panel, panel_blocks, k, column);
      to[2 * column + 1] = decoded(panel, panel_blocks, k + 1, column);
    }
}

#endif

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
