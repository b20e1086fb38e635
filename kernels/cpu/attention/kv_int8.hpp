// Keys and values of an int8 cache (kv_cache.hpp). BF16 holds the integers exactly, so they are multiplied as
// BF16; the scales are applied to scores and probabilities. Included only by the attention of each
// instruction set.
#pragma once

#include "kernels/cpu/attention/state.hpp"
#include "kernels/cpu/simd/int_simd.hpp"
#include "kernels/cpu/simd/v16.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// The scales of a tile's 16 tokens, which follow its integers.
TROUPE_INLINE const float* scales_of_tile(const std::byte* tile, std::size_t dims) {
  return reinterpret_cast<const float*>(tile + dims * tile_tokens);
}

/// The factor of a chunk's scores: the block's scale, with an int8 cache times the scale of each key.
struct score_scales {
  v16 low;
  v16 high;

  inline __attribute__((always_inline))
  score_scales(const attention_block& block, const std::byte* const* keys, std::size_t key_dim)
      : low(splat(block.scale)), high(low) {
    if (block.cache_type == dtype::int8) {
      low = mul(load16(scales_of_tile(keys[0], key_dim)), low);
      high = mul(load16(scales_of_tile(keys[1], key_dim)), high);
    }
  }
};

/// Converts rows of integers to rows of BF16 pairs, the layout of a BF16 cache: for keys, 16 tokens of `rows`
/// dimensions; for values, all dimensions of `rows` tokens.
/// @param out  [rows / 2][columns][2]
static void pair_int8_rows(const std::byte* integers, std::size_t rows, std::size_t columns, std::byte* out) {
  for (std::size_t r = 0; r < rows; r += 2, integers += 2 * columns)
    for (std::size_t i = 0; i < columns; i += lanes, out += lanes * 4)
      store_pairs(out, load_int8(integers + i), load_int8(integers + columns + i));
}

/// A chunk of an int8 cache in the layout of a BF16 cache.
struct paired_chunk {
  static constexpr std::size_t most_dims = 256;

  const std::byte* keys[2];
  const std::byte* values[2];

  void pair(const std::byte* const* key_tiles, const std::byte* const* value_tiles, std::size_t key_dim,
            std::size_t value_dim) {
    for (std::size_t tile = 0; tile < 2; ++tile) {
      pair_int8_rows(key_tiles[tile], key_dim, tile_tokens, memory_[tile]);
      pair_int8_rows(value_tiles[tile], tile_tokens, value_dim, memory_[2 + tile]);
      keys[tile] = memory_[tile];
      values[tile] = memory_[2 + tile];
    }
  }

 private:
  alignas(64) std::byte memory_[4][tile_tokens * most_dims * sizeof(bfloat16)];
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
