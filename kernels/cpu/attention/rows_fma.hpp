// Attention of one row block; attention.hpp defines the order of operations. Included only by the kernels of
// each instruction set.
//
// A block of many rows processes one chunk of keys after another. Few rows process a span of chunks at a
// time, since the steps of one chunk would wait for each other; tiles are prefetched meanwhile.
#pragma once

#include <limits>

#include "kernels/cpu/attention/latent_values.hpp"
#include "kernels/cpu/attention/softmax.hpp"
#include "kernels/cpu/attention/state.hpp"
#include "kernels/cpu/attention/values_fma.hpp"
#include "kernels/cpu/gemm/fma.hpp"
#include "kernels/cpu/rows/row_kernels.hpp"
#include "kernels/cpu/simd/v16.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#if defined(TROUPE_ISA_AVX2)
#  include "kernels/cpu/attention/rows_avx2.hpp"
#endif

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

static void finish_attention(const attention_block& block, const attention_state& s) {
  for (std::size_t t = 0; t < block.tokens; ++t)
    for (std::size_t g = 0; g < block.group; ++g) {
      const std::size_t row = t * block.group + g;
      const float* sum = s.sum + row * s.key_dim;
      const v16 weight = splat(s.weight[row]);
      std::byte* out = block.output[t] + bytes_of(block.output_type, g * block.value_dim);
      with_type(out, block.output_type, [&](auto* to) {
        for_each_16(block.value_dim, [&](std::size_t i, std::size_t n) {
          store_some(to + i, n, div(load_some(sum + i, n), weight));
        });
      });
    }
}

/// @tparam Products  determines the layout of queries
template <class Products>
TROUPE_INLINE attention_state begin_attention(const attention_block& block) {
  const std::size_t rows = block.tokens * block.group;
  attention_state s;
  s.rows = (rows + 15) / 16 * 16;
  s.key_dim = (block.head_dim + block_k - 1) / block_k * block_k;
  s.value_dim = (block.value_dim + 15) / 16 * 16;
  const std::size_t chunks = rows <= attention_span_rows ? attention_span_chunks : 1;
  auto* at = reinterpret_cast<float*>(block.scratch);
  const auto take = [&](std::size_t count) {
    float* begin = at;
    at += count;
    return begin;
  };
  s.query = take(s.rows * s.key_dim);
  s.sum = take(s.rows * s.key_dim);
  s.largest = take(s.rows);
  s.weight = take(s.rows);
  s.score = take(chunks * s.rows * chunk_keys);
  s.top = take(chunks * s.rows);
  s.factor = take(chunks * s.rows);
  s.keys = take(tile_tokens * s.key_dim);
  s.values = take(chunk_keys * s.value_dim);
  for (std::size_t t = 0; t < block.tokens; ++t)
    for (std::size_t g = 0; g < block.group; ++g) {
      const std::size_t row = t * block.group + g;
      Products::pack_query(block, block.query[t] + bytes_of(block.query_type, g * block.head_dim),
                           s.query + row * s.key_dim);
      s.largest[row] = block.sinks != nullptr ? block.sinks[g] : -std::numeric_limits<float>::infinity();
      s.weight[row] = block.sinks != nullptr ? 1.0F : 0.0F;
    }
  std::memset(s.sum, 0, rows * s.key_dim * sizeof(float));
  return s;
}

#if !defined(TROUPE_ISA_AVX2) // AVX2 has its own

/// score += query · keys of a tile, which begins like the panel of a product.
static void score_tile(const attention_state& s, dtype type, const float* query, std::size_t rows,
                       const std::byte* tile, float* score, tile_fetch& fetch) {
  if (type == dtype::int8) {
    auto* pairs = reinterpret_cast<std::byte*>(s.keys);
    pair_int8_rows(tile, s.key_dim, tile_tokens, pairs);
    tile = pairs;
  }
  for (std::size_t b = 0; b < s.key_dim / block_k; ++b) {
    fetch.steps(half_block); // a line for every two rows of the block
    over_rows<direct_kernel<false>>(query + b * block_k, s.key_dim, rows, tile + b * panel_block_bytes, 1,
                                    score, chunk_keys);
  }
}

#endif

/// Products of attention on FMAs. Each prefetches what is read later.
struct products_on_fmas {
  /// A row for the products with keys, in place of key_dim floats.
  static void pack_query(const attention_block& block, const std::byte* query, float* out) {
    if (block.cache_type == dtype::f32)
      pack_row_f32(query, block.query_type, block.head_dim, out);
    else
      pack_row_bf16(query, block.query_type, block.head_dim, out);
  }

  /// Scores of the rows of a chunk, unscaled.
  static void scores(const seen_chunk& chunk, tile_fetch fetch) {
    const attention_block& block = *chunk.view.block;
    const attention_state& s = chunk.state;
    const std::size_t rows = (chunk.to - chunk.from) * block.group;
    float* score = s.score + chunk.from * block.group * chunk_keys;
    const float* query = s.query + chunk.from * block.group * s.key_dim;
    std::memset(score, 0, rows * chunk_keys * sizeof(float));
    for (std::size_t tile = 0; tile < 2; ++tile) {
      float* to = score + tile * tile_tokens;
      if (block.cache_type == dtype::f32)
        f32_panel(query, s.key_dim, rows, reinterpret_cast<const float*>(chunk.tiles.keys[tile]),
                  block.head_dim, to, chunk_keys);
      else
        score_tile(s, block.cache_type, query, rows, chunk.tiles.keys[tile], to, fetch);
    }
    fetch.rest();
  }

  /// Stores a row's probabilities in the layout for products with values, in place of its scores.
  TROUPE_INLINE void store_probabilities(float* score, const v16& low, const v16& high, dtype type) {
    if (type == dtype::f32) {
      store16(score, low);
      store16(score + 16, high);
      return;
    }
    store16(score, each_part([&](std::size_t i) { return round_to_bf16(low.part[i]); }));
    store16(score + 16, each_part([&](std::size_t i) { return round_to_bf16(high.part[i]); }));
  }

  /// Adds a chunk's values to its rows.
  static void add_values(const seen_chunk& chunk, tile_fetch fetch) {
    const attention_block& block = *chunk.view.block;
    const attention_state& s = chunk.state;
    const std::size_t group = block.group;
    if (block.cache_type == dtype::f32) {
      chunk.for_runs(
          [&](std::size_t t, std::size_t tokens) {
            values_of_rows<value_kernel_f32>(s, t * group, tokens * group, chunk.tiles.values, fetch);
          },
          [&](std::size_t t, std::size_t first, std::size_t end) {
            for (std::size_t g = 0; g < group; ++g)
              values_of_part(s, t * group + g, chunk.tiles.values, first, end, dtype::f32);
          });
    } else {
      const chunk_values values(s, block.cache_type, chunk.tiles.values, (chunk.to - chunk.from) * group);
      chunk.for_runs([&](std::size_t t,
                         std::size_t tokens) { values.add(t * group, tokens * group, chunk_keys, fetch); },
                     [&](std::size_t t, std::size_t first, std::size_t end) {
                       if (first == 0)
                         values.add(t * group, group, end, fetch);
                       else
                         for (std::size_t g = 0; g < group; ++g)
                           values_of_part(s, t * group + g, chunk.tiles.values, first, end, dtype::bf16);
                     });
    }
    fetch.rest();
  }
};

/// The chunks that a token of a block sees, in order.
class chunk_walk {
 public:
  explicit chunk_walk(const attention_block& block) : block_(block), left_(block) {}

  /// At most `most` further chunks.
  /// @returns their number
  inline __attribute__((always_inline)) std::size_t next(const attention_state& s, std::size_t most,
                                                         seen_chunk* chunks) {
    std::size_t count = 0;
    for (; count < most && left_.begin < left_.end; left_.begin += chunk_keys) {
      seen_chunk& chunk = chunks[count];
      chunk.view = {&block_, left_.begin};
      chunk.from = 0;
      while (chunk.from < block_.tokens && !chunk.view.sees(chunk.from))
        ++chunk.from;
      chunk.to = block_.tokens;
      while (chunk.to > chunk.from && !chunk.view.sees(chunk.to - 1))
        --chunk.to;
      if (chunk.from == chunk.to)
        continue;
      chunk.tiles = {block_, left_.begin};
      chunk.state = s.of_chunk(count++);
    }
    return count;
  }

 private:
  const attention_block& block_;
  seen_keys left_;
};

/// Attention of a row block with a class of products (`products_on_fmas`).
template <class Products>
TROUPE_INLINE void attention_in_spans(const attention_block& block) {
  const attention_state s = begin_attention<Products>(block);
  const std::size_t most = block.tokens * block.group <= attention_span_rows ? attention_span_chunks : 1;
  const bool fetches = most > 1;
  const bool fetches_values = fetches && block.value_tiles != nullptr;
  const std::size_t scale_bytes = block.cache_type == dtype::int8 ? tile_tokens * sizeof(float) : 0;
  const std::size_t key_bytes = bytes_of(block.cache_type, s.key_dim * tile_tokens) + scale_bytes;
  const std::size_t value_bytes = bytes_of(block.cache_type, s.value_dim * tile_tokens) + scale_bytes;
  seen_chunk chunks[attention_span_chunks];
  chunk_walk walk(block);
  while (const std::size_t count = walk.next(s, most, chunks)) {
    for (std::size_t c = 0; c < count; ++c)
      Products::scores(chunks[c],
                       fetches_values ? tile_fetch(chunks[c].tiles.values, value_bytes) : tile_fetch());
    softmax_rows<Products>(chunks, count);
    for (std::size_t c = 0; c < count; ++c) {
      const std::size_t tile = chunks[c].view.begin / tile_tokens + 2 * most;
      const bool follows = fetches && tile + 1 < block.num_tiles;
      make_latent_values(block, chunks[c].tiles);
      Products::add_values(chunks[c], follows ? tile_fetch(block.key_tiles + tile, key_bytes) : tile_fetch());
    }
  }
  finish_attention(block, s);
}

static void attention(const attention_block& block) {
  attention_in_spans<products_on_fmas>(block);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
