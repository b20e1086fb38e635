// Attention of a few rows on dot products of BF16. Included only by avx512_bf16_kernels.cpp.
#pragma once

#include "kernels/cpu/attention/rows_fma.hpp"
#include "kernels/cpu/gemm/dots_vdpbf16.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// A block of 32 dimensions of a chunk's keys: two tiles, which have the layout of panels.
struct key_dots {
  const std::byte* tiles[2];

  inline __attribute__((always_inline)) void at(std::size_t tile, std::size_t i, vi& even, vi& odd) const {
    packed_dots{tiles[tile]}.at(0, i, even, odd);
  }
};

/// The same for int8 keys.
struct int8_key_dots {
  const std::byte* tiles[2];

  inline __attribute__((always_inline)) void at(std::size_t tile, std::size_t i, vi& even, vi& odd) const {
    int8_dots(tiles[tile] + 4 * i * tile_tokens, tile_tokens, even, odd);
  }
};

/// 16 or 32 dimensions of a chunk's values: pairs of keys, `stride` bytes apart, of two tiles.
struct value_dots {
  static constexpr std::size_t bytes_of_dim = 4; // of a pair

  const std::byte* tiles[2];
  std::size_t stride;

  inline __attribute__((always_inline)) void at(std::size_t part, std::size_t i, vi& even, vi& odd) const {
    // Pairs of keys 4 i and 4 i + 2: eight pairs to a tile.
    const std::byte* pairs = tiles[i / 4] + i % 4 * 2 * stride + part * 16 * bytes_of_dim;
    const vi first = load_pairs(pairs);
    const vi second = load_pairs(pairs + stride);
    even = even_dots(first, second);
    odd = odd_dots(first, second);
  }
};

/// The same for int8 values: keys `stride` bytes apart.
struct int8_value_dots {
  static constexpr std::size_t bytes_of_dim = 1;

  const std::byte* tiles[2];
  std::size_t stride;

  inline __attribute__((always_inline)) void at(std::size_t part, std::size_t i, vi& even, vi& odd) const {
    int8_dots(tiles[i / 4] + i % 4 * 4 * stride + part * 16 * bytes_of_dim, stride, even, odd);
  }
};

/// A chunk's values with zeros at keys that a row does not see, so that the row takes all
/// (`seen_chunk::takes_all` explains why that changes no bit).
/// @param to  [2 tiles]
static void copy_seen_values(const attention_state& s, const std::byte* const (&tiles)[2], std::size_t first,
                             std::size_t end, std::byte* to) {
  for (std::size_t k = 0; k < chunk_keys; k += 2, to += s.value_dim * 4) {
    const std::byte* from = tiles[k / tile_tokens] + k % tile_tokens / 2 * s.value_dim * 4;
    const std::uint32_t lower = k >= first && k < end ? 0x0000ffffU : 0U;
    const std::uint32_t upper = k + 1 >= first && k + 1 < end ? 0xffff0000U : 0U;
    const vi seen = _mm512_set1_epi32(static_cast<int>(lower | upper));
    for (std::size_t i = 0; i < s.value_dim * 4; i += vector_bytes)
      _mm512_storeu_si512(to + i, _mm512_and_si512(load_pairs(from + i), seen));
  }
}

/// See `products_on_fmas`. The probabilities of a chunk are 32 BF16 numbers in order, in place of the row's
/// scores.
struct products_on_dots {
  static constexpr std::size_t rows_together = 6;
  static constexpr std::size_t probability_stride = chunk_keys * sizeof(float) / sizeof(bfloat16);

  static void pack_query(const attention_block& block, const std::byte* query, float* out) {
    pack_row_dots(query, block.query_type, block.head_dim, reinterpret_cast<bfloat16*>(out));
  }

  static void scores(const seen_chunk& chunk, tile_fetch fetch) {
    if (chunk.view.block->cache_type == dtype::int8)
      scores_with<int8_key_dots>(chunk, block_k * tile_tokens, fetch);
    else
      scores_with<key_dots>(chunk, panel_block_bytes, fetch);
    fetch.rest();
  }

  TROUPE_INLINE void store_probabilities(float* score, const v16& low, const v16& high, dtype /*type*/) {
    const vi words = rounded_words(low.part[0], high.part[0]);
    _mm512_storeu_si512(score, _mm512_permutexvar_epi16(load_pairs(dots_in_place.value), words));
  }

  static void add_values(const seen_chunk& chunk, tile_fetch fetch) {
    const attention_state& s = chunk.state;
    const std::size_t group = chunk.view.block->group;
    const bool is_int8 = chunk.view.block->cache_type == dtype::int8;
    chunk.for_runs(
        [&](std::size_t t, std::size_t tokens) {
          if (is_int8)
            add_to_rows<int8_value_dots>(s, t * group, tokens * group, chunk.tiles.values, fetch);
          else
            add_to_rows<value_dots>(s, t * group, tokens * group, chunk.tiles.values, fetch);
        },
        [&](std::size_t t, std::size_t first, std::size_t end) {
          auto* copy = reinterpret_cast<std::byte*>(s.values);
          copy_seen_values(s, chunk.tiles.values, first, end, copy);
          const std::byte* const tiles[2] = {copy, copy + tile_tokens * s.value_dim * sizeof(bfloat16)};
          add_to_rows<value_dots>(s, t * group, group, tiles, fetch);
        });
    fetch.rest();
  }

 private:
  /// @param block_bytes  of 32 dimensions of a tile
  template <class Keys>
  TROUPE_INLINE void scores_with(const seen_chunk& chunk, std::size_t block_bytes, tile_fetch& fetch) {
    const attention_state& s = chunk.state;
    const std::size_t first = chunk.from * chunk.view.block->group;
    const std::size_t rows = chunk.to * chunk.view.block->group - first;
    // Rows of queries use half of their space.
    const std::size_t stride = s.key_dim * sizeof(float) / sizeof(bfloat16);
    in_row_blocks<rows_together>(rows, [&]<std::size_t Rows>(std::size_t done) {
      const auto* query = reinterpret_cast<const bfloat16*>(s.query + (first + done) * s.key_dim);
      float* score = s.score + (first + done) * chunk_keys;
      for (std::size_t b = 0; b < s.key_dim / block_k; ++b) {
        const Keys keys{{chunk.tiles.keys[0] + b * block_bytes, chunk.tiles.keys[1] + b * block_bytes}};
        dot_block<Rows, 2>(
            row_dots{query + b * block_k, stride}, keys,
            [&](std::size_t tile, std::size_t r, vf sum) {
              float* to = score + r * chunk_keys + tile * tile_tokens;
              store(to, add(b == 0 ? set1(0.0F) : load(to), sum));
            },
            [&](std::size_t) { fetch.steps(4); });
      }
    });
  }

  template <class Values>
  TROUPE_INLINE void add_to_rows(const attention_state& s, std::size_t first, std::size_t rows,
                                 const std::byte* const (&tiles)[2], tile_fetch& fetch) {
    constexpr std::size_t bytes_of_dim = Values::bytes_of_dim;
    in_row_blocks<rows_together>(rows, [&]<std::size_t Rows>(std::size_t done) {
      const std::size_t row = first + done;
      const row_dots probabilities{reinterpret_cast<const bfloat16*>(s.score + row * chunk_keys),
                                   probability_stride};
      float* sums = s.sum + row * s.key_dim;
      const auto add_16s = [&]<std::size_t Parts>(std::size_t d) {
        dot_block<Rows, Parts>(
            probabilities,
            Values{{tiles[0] + d * bytes_of_dim, tiles[1] + d * bytes_of_dim}, s.value_dim * bytes_of_dim},
            [&](std::size_t part, std::size_t r, vf sum) {
              float* to = sums + r * s.key_dim + d + part * 16;
              store(to, fma(load(to), set1(s.factor[row + r]), add(set1(0.0F), sum)));
            },
            [&](std::size_t) { fetch.steps(4); });
      };
      std::size_t d = 0;
      for (; d + 32 <= s.value_dim; d += 32)
        add_16s.template operator()<2>(d);
      if (d < s.value_dim)
        add_16s.template operator()<1>(d);
    });
  }
};

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
