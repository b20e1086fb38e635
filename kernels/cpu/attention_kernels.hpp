// Attention of one row block: see attention.hpp for the order of operations.
// Included by isa_kernels.cpp only.
#pragma once

#include <limits>

#include "kernels/cpu/attention_state.hpp"
#include "kernels/cpu/gemm_kernels.hpp"
#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/math.hpp"
#include "kernels/cpu/row_blocks.hpp"
#include "kernels/cpu/row_kernels.hpp"
#include "kernels/cpu/v16.hpp"
#if defined(TROUPE_ISA_AVX2)
#  include "kernels/cpu/attention_avx2_kernels.hpp"
#endif

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

#if !defined(TROUPE_ISA_AVX2) // it has another

/// sum = fma(sum, factor, even + odd) for `Rows` rows, pairs of keys [0, 16) of
/// two tiles.
struct value_kernel_bf16 {
  static constexpr std::size_t most_rows = 6;

  template <std::size_t Rows>
  TROUPE_INLINE void run(const attention_state& s, std::size_t row, const std::byte* const* tiles) {
    const float* p = s.score + row * chunk_keys;
    for (std::size_t d = 0; d < s.value_dim; d += lanes) {
      vf even[Rows];
      vf odd[Rows];
#  pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        even[r] = odd[r] = set1(0.0F);
      for (std::size_t tile = 0; tile < 2; ++tile) {
        const std::byte* v = tiles[tile] + d * 4;
        const float* x = p + tile * tile_tokens;
#  pragma GCC unroll 1
        for (std::size_t k = 0; k < tile_tokens / 2; ++k) {
          const vi pairs = load_pairs(v + k * s.value_dim * 4);
          const vf v_even = even_of(pairs);
          const vf v_odd = odd_of(pairs);
#  pragma GCC unroll 16
          for (std::size_t r = 0; r < Rows; ++r) {
            even[r] = fma(set1(x[r * chunk_keys + 2 * k]), v_even, even[r]);
            odd[r] = fma(set1(x[r * chunk_keys + 2 * k + 1]), v_odd, odd[r]);
          }
        }
      }
#  pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r) {
        float* to = s.sum + (row + r) * s.key_dim + d;
        const vf fresh = add(set1(0.0F), add(even[r], odd[r]));
        store(to, fma(load(to), set1(s.factor[row + r]), fresh));
      }
    }
  }
};

#endif

/// FP32: sum · factor, then one FMA per key of two tiles.
struct value_kernel_f32 {
  static constexpr std::size_t most_rows = 6;

  template <std::size_t Rows>
  TROUPE_INLINE void run(const attention_state& s, std::size_t row, const std::byte* const* tiles) {
    const float* p = s.score + row * chunk_keys;
    for (std::size_t d = 0; d < s.value_dim; d += lanes) {
      vf sum[Rows];
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        sum[r] = mul(load(s.sum + (row + r) * s.key_dim + d), set1(s.factor[row + r]));
      for (std::size_t tile = 0; tile < 2; ++tile) {
        const auto* v = reinterpret_cast<const float*>(tiles[tile]) + d;
        const float* x = p + tile * tile_tokens;
#pragma GCC unroll 1
        for (std::size_t k = 0; k < tile_tokens; ++k) {
          const vf value = load(v + k * s.value_dim);
#pragma GCC unroll 16
          for (std::size_t r = 0; r < Rows; ++r)
            sum[r] = fma(set1(x[r * chunk_keys + k]), value, sum[r]);
        }
      }
#pragma GCC unroll 16
      for (std::size_t r = 0; r < Rows; ++r)
        store(s.sum + (row + r) * s.key_dim + d, sum[r]);
    }
  }
};

/// Rows whose every key of the chunk is seen.
template <class Kernel>
TROUPE_INLINE void values_of_rows(const attention_state& s, std::size_t row, std::size_t rows,
                                  const std::byte* const* tiles) {
  in_row_blocks<Kernel::most_rows>(
      rows, [&]<std::size_t Rows>(std::size_t done) { Kernel::template run<Rows>(s, row + done, tiles); });
}

/// One row that sees keys [first, end) of the chunk: the same chains over those
/// keys alone.
static void values_of_part(const attention_state& s, std::size_t row, const std::byte* const* tiles,
                           std::size_t first, std::size_t end, dtype type) {
  const float* p = s.score + row * chunk_keys;
  const vf factor = set1(s.factor[row]);
  for (std::size_t d = 0; d < s.value_dim; d += lanes) {
    float* to = s.sum + row * s.key_dim + d;
    if (type == dtype::f32) {
      vf sum = mul(load(to), factor);
      for (std::size_t k = first; k < end; ++k) {
        const auto* v = reinterpret_cast<const float*>(tiles[k / tile_tokens]);
        sum = fma(set1(p[k]), load(v + k % tile_tokens * s.value_dim + d), sum);
      }
      store(to, sum);
      continue;
    }
    vf even = set1(0.0F);
    vf odd = set1(0.0F);
    for (std::size_t k = first; k < end; ++k) {
      const std::byte* v = tiles[k / tile_tokens] + (k % tile_tokens / 2 * s.value_dim + d) * 4;
      if (k % 2 == 0)
        even = fma(set1(p[k]), even_of(load_pairs(v)), even);
      else
        odd = fma(set1(p[k]), odd_of(load_pairs(v)), odd);
    }
    store(to, fma(load(to), factor, add(set1(0.0F), add(even, odd))));
  }
}

#if !defined(TROUPE_ISA_AVX2) // it has others

/// The values of a chunk in BF16, for rows of a block.
class chunk_values {
 public:
  chunk_values(const attention_state& s, const std::byte* const* tiles, std::size_t /*rows*/)
      : s_(s), tiles_(tiles) {}

  /// Adds to rows that see keys [0, keys).
  void add(std::size_t row, std::size_t rows, std::size_t keys) const {
    if (keys == chunk_keys)
      values_of_rows<value_kernel_bf16>(s_, row, rows, tiles_);
    else
      for (std::size_t r = row; r < row + rows; ++r)
        values_of_part(s_, r, tiles_, 0, keys, dtype::bf16);
  }

 private:
  const attention_state& s_;
  const std::byte* const* tiles_;
};

#endif

/// Scales the scores of keys [first, end) that one row sees and hides the others, and raises its maximum m to
/// m'. Leaves m − m' in its factor.
static void scale_scores(const attention_state& s, std::size_t row, std::size_t first, std::size_t end,
                         float scale) {
  float* score = s.score + row * chunk_keys;
  const v16 factor = splat(scale);
  v16 low = mul(load16(score), factor);
  v16 high = mul(load16(score + 16), factor);
  store16(score, low);
  store16(score + 16, high);
  if (first != 0 || end != chunk_keys) {
    const float lowest = -std::numeric_limits<float>::infinity();
    for (std::size_t k = 0; k < first; ++k)
      score[k] = lowest;
    for (std::size_t k = end; k < chunk_keys; ++k)
      score[k] = lowest;
    low = load16(score);
    high = load16(score + 16);
  }
  const float before = s.largest[row];
  const float chunk_max = max_of(max(low, high));
  const float now = before > chunk_max ? before : chunk_max;
  s.largest[row] = now;
  s.factor[row] = before - now;
}

/// Scaled scores of one row to probabilities, which are added to its sum, once its factor is exp(m − m').
static void add_probabilities(const attention_state& s, std::size_t row, dtype type) {
  float* score = s.score + row * chunk_keys;
  const v16 top = splat(s.largest[row]);
  const v16 p_low = exp(sub(load16(score), top));
  const v16 p_high = exp(sub(load16(score + 16), top));
  s.weight[row] = std::fma(s.weight[row], s.factor[row], sum_of(add(p_low, p_high)));
  if (type == dtype::f32) {
    store16(score, p_low);
    store16(score + 16, p_high);
    return;
  }
  store16(score, each_part([&](std::size_t i) { return round_to_bf16(p_low.part[i]); }));
  store16(score + 16, each_part([&](std::size_t i) { return round_to_bf16(p_high.part[i]); }));
}

static void finish_attention(const attention_block& block, const attention_state& s) {
  for (std::size_t t = 0; t < block.tokens; ++t)
    for (std::size_t g = 0; g < block.group; ++g) {
      const std::size_t row = t * block.group + g;
      const float* sum = s.sum + row * s.key_dim;
      const v16 weight = splat(s.weight[row]);
      std::byte* out = block.output[t] + bytes_of(block.output_type, g * block.head_dim);
      with_type(out, block.output_type, [&](auto* to) {
        for_each_16(block.head_dim, [&](std::size_t i, std::size_t n) {
          store_some(to + i, n, div(load_some(sum + i, n), weight));
        });
      });
    }
}

static attention_state begin_attention(const attention_block& block) {
  const std::size_t rows = block.tokens * block.group;
  const std::size_t key_dim = (block.head_dim + block_k - 1) / block_k * block_k;
  auto* at = reinterpret_cast<float*>(block.scratch);
  attention_state s;
  s.key_dim = key_dim;
  s.value_dim = (block.head_dim + 15) / 16 * 16;
  s.query = at;
  s.sum = s.query + rows * key_dim;
  s.score = s.sum + rows * key_dim;
  s.largest = s.score + rows * chunk_keys;
  s.weight = s.largest + rows;
  s.factor = s.weight + rows;
  s.keys = s.factor + (rows + 15) / 16 * 16;
  s.values = s.keys + 16 * key_dim;
  for (std::size_t t = 0; t < block.tokens; ++t)
    for (std::size_t g = 0; g < block.group; ++g) {
      const std::size_t row = t * block.group + g;
      const std::byte* q = block.query[t] + bytes_of(block.query_type, g * block.head_dim);
      float* to = s.query + row * key_dim;
      if (block.cache_type == dtype::bf16)
        pack_row_bf16(q, block.query_type, block.head_dim, to);
      else
        pack_row_f32(q, block.query_type, block.head_dim, to);
      s.largest[row] = block.sinks != nullptr ? block.sinks[g] : -std::numeric_limits<float>::infinity();
      s.weight[row] = block.sinks != nullptr ? 1.0F : 0.0F;
    }
  std::memset(s.sum, 0, rows * key_dim * sizeof(float));
  return s;
}

#if !defined(TROUPE_ISA_AVX2) // it has another

/// score += query · keys of a tile, which begins as the panel of a product does.
static void score_tile(const attention_state& s, const float* query, std::size_t rows, const std::byte* tile,
                       float* score) {
  over_rows<direct_kernel<false>>(query, s.key_dim, rows, tile, s.key_dim / block_k, score, chunk_keys);
}

#endif

/// Scores of all rows of tokens [from, to) with the chunk's two key tiles,
/// unscaled.
static void score_rows(const attention_block& block, const attention_state& s, const std::byte* const* tiles,
                       std::size_t row, std::size_t rows) {
  float* score = s.score + row * chunk_keys;
  const float* query = s.query + row * s.key_dim;
  std::memset(score, 0, rows * chunk_keys * sizeof(float));
  for (std::size_t tile = 0; tile < 2; ++tile) {
    float* to = score + tile * tile_tokens;
    if (block.cache_type == dtype::bf16)
      score_tile(s, query, rows, tiles[tile], to);
    else
      f32_panel(query, s.key_dim, rows, reinterpret_cast<const float*>(tiles[tile]), block.head_dim, to,
                chunk_keys);
  }
}

/// Which keys of a chunk the tokens of a block see.
struct chunk_view {
  const attention_block& block;
  std::size_t begin; // the chunk's first key

  bool sees(std::size_t t) const {
    return block.end_key[t] > begin && block.first_key[t] < begin + chunk_keys;
  }

  /// Token `t` sees keys [first, end) of the chunk; none if end ≤ first.
  std::size_t first(std::size_t t) const {
    return block.first_key[t] > begin ? block.first_key[t] - begin : 0;
  }

  std::size_t end(std::size_t t) const {
    if (block.end_key[t] > begin + chunk_keys)
      return chunk_keys;
    return sees(t) ? block.end_key[t] - begin : 0;
  }
};

/// Scores to probabilities for tokens [from, to), one step of all rows after the other: a row's own steps
/// wait for each other.
static void softmax_rows(const chunk_view& view, const attention_state& s, std::size_t from, std::size_t to) {
  const std::size_t group = view.block.group;
  const auto for_rows = [&](const auto& run) {
    for (std::size_t t = from; t < to; ++t)
      if (view.end(t) > view.first(t))
        for (std::size_t g = 0; g < group; ++g)
          run(t, t * group + g);
  };
  for_rows([&](std::size_t t, std::size_t row) {
    scale_scores(s, row, view.first(t), view.end(t), view.block.scale);
  });
  for (std::size_t row = from * group; row < to * group; row += lanes)
    store(s.factor + row, exp(load(s.factor + row)));
  for_rows([&](std::size_t, std::size_t row) { add_probabilities(s, row, view.block.cache_type); });
}

/// Adds the values of a chunk to tokens [from, to).
static void add_chunk_values(const chunk_view& view, const attention_state& s, const std::byte* const* tiles,
                             std::size_t from, std::size_t to) {
  const attention_block& block = view.block;
  const std::size_t group = block.group;
  const bool is_bf16 = block.cache_type == dtype::bf16;
  const chunk_values bf16_values(s, tiles, is_bf16 ? (to - from) * group : 0);
  std::size_t full_from = from; // tokens [full_from, t) see the whole chunk and wait for the blocked kernel
  const auto flush = [&](std::size_t t) {
    if (is_bf16)
      bf16_values.add(full_from * group, (t - full_from) * group, chunk_keys);
    else
      values_of_rows<value_kernel_f32>(s, full_from * group, (t - full_from) * group, tiles);
  };
  for (std::size_t t = from; t < to; ++t) {
    const std::size_t first = view.first(t);
    const std::size_t end = view.end(t);
    if (first == 0 && end == chunk_keys)
      continue;
    flush(t);
    full_from = t + 1;
    if (is_bf16 && first == 0 && end != 0)
      bf16_values.add(t * group, group, end);
    else if (end > first)
      for (std::size_t g = 0; g < group; ++g)
        values_of_part(s, t * group + g, tiles, first, end, block.cache_type);
  }
  flush(to);
}

static void attention(const attention_block& block) {
  const attention_state s = begin_attention(block);
  std::size_t end_key = 0;
  for (std::size_t t = 0; t < block.tokens; ++t)
    end_key = end_key > block.end_key[t] ? end_key : block.end_key[t];
  for (std::size_t begin = 0; begin < end_key; begin += chunk_keys) {
    const chunk_view view{block, begin};
    std::size_t from = 0;
    while (from < block.tokens && !view.sees(from))
      ++from;
    std::size_t to = block.tokens;
    while (to > from && !view.sees(to - 1))
      --to;
    if (from == to)
      continue;
    // A chunk's second tile may not exist yet; nobody sees it then.
    const std::size_t tile = begin / tile_tokens;
    const std::size_t second = tile + 1 < block.num_tiles ? tile + 1 : tile;
    const std::byte* keys[2] = {block.key_tiles[tile], block.key_tiles[second]};
    const std::byte* values[2] = {block.value_tiles[tile], block.value_tiles[second]};
    score_rows(block, s, keys, from * block.group, (to - from) * block.group);
    softmax_rows(view, s, from, to);
    add_chunk_values(view, s, values, from, to);
  }
  finish_attention(block, s);
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
