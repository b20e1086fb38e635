// Values of a latent cache, which are the first numbers of its keys (kv_cache.hpp): a chunk's value tiles are
// made from its key tiles when they are needed, once for all rows of a block. Included only by the attention
// of each instruction set.
#pragma once

#include "kernels/cpu/attention/state.hpp"
#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

#if defined(TROUPE_ISA_AVX512) || defined(TROUPE_ISA_AVX2)

// A vector takes 16 bytes (two dimensions of four tokens) of each of `quarters` pairs of rows.
#  if defined(TROUPE_ISA_AVX512)

constexpr std::size_t latent_quarters = 4;

TROUPE_INLINE __m512i every_second_row(const std::byte* row) {
  const auto part = [&](std::size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i * 64));
  };
  __m512i rows = _mm512_castsi128_si512(part(0));
  rows = _mm512_inserti32x4(rows, part(1), 1);
  rows = _mm512_inserti32x4(rows, part(2), 2);
  return _mm512_inserti32x4(rows, part(3), 3);
}

TROUPE_INLINE __m512i swap_middle_words(__m512i squares) {
  const __m512i order =
      _mm512_broadcast_i32x4(_mm_set_epi8(15, 14, 11, 10, 13, 12, 9, 8, 7, 6, 3, 2, 5, 4, 1, 0));
  return _mm512_shuffle_epi8(squares, order);
}

TROUPE_INLINE void store_token_pairs(std::byte* first, std::byte* second, __m512i even, __m512i odd) {
  _mm512_storeu_si512(first, swap_middle_words(_mm512_unpacklo_epi64(even, odd)));
  _mm512_storeu_si512(second, swap_middle_words(_mm512_unpackhi_epi64(even, odd)));
}

#  else

constexpr std::size_t latent_quarters = 2;

TROUPE_INLINE __m256i every_second_row(const std::byte* row) {
  const auto part = [&](std::size_t i) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(row + 2 * i * 64));
  };
  return _mm256_inserti128_si256(_mm256_castsi128_si256(part(0)), part(1), 1);
}

TROUPE_INLINE __m256i swap_middle_words(__m256i squares) {
  const __m256i order =
      _mm256_broadcastsi128_si256(_mm_set_epi8(15, 14, 11, 10, 13, 12, 9, 8, 7, 6, 3, 2, 5, 4, 1, 0));
  return _mm256_shuffle_epi8(squares, order);
}

TROUPE_INLINE void store_token_pairs(std::byte* first, std::byte* second, __m256i even, __m256i odd) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(first), swap_middle_words(_mm256_unpacklo_epi64(even, odd)));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(second),
                      swap_middle_words(_mm256_unpackhi_epi64(even, odd)));
}

#  endif

/// [dims / 2][16 tokens][2] becomes [16 / 2][dims][2]. Squares of two dimensions and two tokens, 8 bytes, are
/// transposed as such; in each the middle numbers change places.
static void latent_values_of_tile(const std::byte* keys, std::size_t dims, std::byte* out) {
  constexpr std::size_t rows = 2 * latent_quarters; // pairs of dimensions
  const std::size_t stride = dims * 4;              // of a pair of tokens
  for (std::size_t d = 0; d < dims; d += 2 * rows, keys += rows * 64)
#  pragma GCC unroll 4
    for (std::size_t four = 0; four < 4; ++four) { // of tokens
      const std::byte* from = keys + four * 16;
      std::byte* to = out + 2 * four * stride + d * 4;
      store_token_pairs(to, to + stride, every_second_row(from), every_second_row(from + 64));
    }
}

#else

static void latent_values_of_tile(const std::byte* keys, std::size_t dims, std::byte* out) {
  const auto* from = reinterpret_cast<const bfloat16*>(keys);
  auto* to = reinterpret_cast<bfloat16*>(out);
  for (std::size_t t = 0; t < tile_tokens; ++t)
    for (std::size_t d = 0; d < dims; ++d)
      to[(t / 2 * dims + d) * 2 + t % 2] = from[(d / 2 * tile_tokens + t) * 2 + d % 2];
}

#endif

/// The same in FP32: [dims][16 tokens] becomes [16][dims].
static void latent_values_of_tile_f32(const std::byte* keys, std::size_t dims, std::byte* out) {
  const auto* from = reinterpret_cast<const float*>(keys);
  auto* to = reinterpret_cast<float*>(out);
  for (std::size_t d = 0; d < dims; ++d)
    for (std::size_t t = 0; t < tile_tokens; ++t)
      to[t * dims + d] = from[d * tile_tokens + t];
}

/// Makes the values of a chunk, if the cache is latent.
TROUPE_INLINE void make_latent_values(const attention_block& block, chunk_tiles& tiles) {
  if (block.value_tiles != nullptr)
    return;
  const std::size_t dims = (block.value_dim + 15) / 16 * 16;
  for (std::size_t tile = 0; tile < 2; ++tile) {
    std::byte* to = block.latent_values + tile * bytes_of(block.cache_type, tile_tokens * dims);
    if (block.cache_type == dtype::f32)
      latent_values_of_tile_f32(tiles.keys[tile], dims, to);
    else
      latent_values_of_tile(tiles.keys[tile], dims, to);
    tiles.values[tile] = to;
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
