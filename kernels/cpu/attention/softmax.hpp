// The visible keys of a chunk for the rows of a block, and the step from scores to probabilities;
// attention.hpp defines the order of operations. Included only by attention/rows_fma.hpp.
#pragma once

#include <limits>

#include "kernels/cpu/attention/kv_int8.hpp"
#include "kernels/cpu/attention/state.hpp"
#include "kernels/cpu/simd/math.hpp"
#include "kernels/cpu/simd/v16.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// The visible keys of a chunk for each token of a block.
struct chunk_view {
  const attention_block* block = nullptr;
  std::size_t begin = 0; // the chunk's first key

  bool sees(std::size_t t) const {
    return block->end_key[t] > begin && block->first_key[t] < begin + chunk_keys;
  }

  /// Token `t` sees keys [first, end) of the chunk; none if end ≤ first.
  std::size_t first(std::size_t t) const {
    return block->first_key[t] > begin ? block->first_key[t] - begin : 0;
  }

  std::size_t end(std::size_t t) const {
    if (block->end_key[t] > begin + chunk_keys)
      return chunk_keys;
    return sees(t) ? block->end_key[t] - begin : 0;
  }
};

/// A chunk that a token of a block sees.
struct seen_chunk {
  chunk_view view;
  std::size_t from = 0; // tokens [from, to) may see it
  std::size_t to = 0;
  chunk_tiles tiles{};
  attention_state state;

  /// Calls `run(t, row)` for every row that sees a key.
  template <class Run>
  inline __attribute__((always_inline)) void for_rows(const Run& run) const {
    const std::size_t group = view.block->group;
    for (std::size_t t = from; t < to; ++t)
      if (view.end(t) > view.first(t))
        for (std::size_t g = 0; g < group; ++g)
          run(t, t * group + g);
  }

  /// Whether a row whose token sees keys [first, end) may be multiplied with all values. With an int8 cache
  /// every row that sees a key may: all values are finite, and invisible ones have probability 0. That
  /// changes no bit: a sum that starts from +0 can only turn from −0 into +0 by adding +0, and the last
  /// addition to +0 makes either of them +0.
  bool takes_all(std::size_t first, std::size_t end) const {
    return view.block->cache_type == dtype::int8 ? end > first : first == 0 && end == chunk_keys;
  }

  /// Calls `whole(t, tokens)` for tokens [t, t + tokens) that are multiplied with all values, and `part(t,
  /// first, end)` for a token that is multiplied with keys [first, end) only.
  template <class Whole, class Part>
  inline __attribute__((always_inline)) void for_runs(const Whole& whole, const Part& part) const {
    std::size_t run = from; // tokens [run, t) are pending
    for (std::size_t t = from; t <= to; ++t) {
      const std::size_t first = t < to ? view.first(t) : 0;
      const std::size_t end = t < to ? view.end(t) : 0;
      if (t < to && takes_all(first, end))
        continue;
      if (t > run)
        whole(run, t - run);
      run = t + 1;
      if (end > first)
        part(t, first, end);
    }
  }
};

/// Replaces the numbers of keys outside [first, end) by `other`.
TROUPE_INLINE void hide_others(float* numbers, std::size_t first, std::size_t end, float other, v16& low,
                               v16& high) {
  if (first == 0 && end == chunk_keys)
    return;
  store16(numbers, low);
  store16(numbers + 16, high);
  for (std::size_t k = 0; k < first; ++k)
    numbers[k] = other;
  for (std::size_t k = end; k < chunk_keys; ++k)
    numbers[k] = other;
  low = load16(numbers);
  high = load16(numbers + 16);
}

/// Scales the scores of the visible keys [first, end) of one row, hides the others, and raises the row's
/// maximum m to m'. Writes m' to its top and m − m' to its factor.
static void scale_scores(const attention_state& s, std::size_t row, std::size_t first, std::size_t end,
                         const score_scales& scales) {
  float* score = s.score + row * chunk_keys;
  v16 low = mul(load16(score), scales.low);
  v16 high = mul(load16(score + 16), scales.high);
  hide_others(score, first, end, -std::numeric_limits<float>::infinity(), low, high);
  store16(score, low);
  store16(score + 16, high);
  const float before = s.largest[row];
  const float chunk_max = max_of(max(low, high));
  const float now = before > chunk_max ? before : chunk_max;
  s.largest[row] = now;
  s.top[row] = now;
  s.factor[row] = before - now;
}

/// Turns the scaled scores of row `row`, token `t`, into probabilities and adds them to the row's sum, once
/// its factor is exp(m − m'). With an int8 cache they are then multiplied with the scales of the values.
/// @tparam Products  determines how they are stored
template <class Products>
TROUPE_INLINE void add_probabilities(const seen_chunk& chunk, std::size_t t, std::size_t row) {
  const attention_state& s = chunk.state;
  const dtype type = chunk.view.block->cache_type;
  float* score = s.score + row * chunk_keys;
  const v16 top = splat(s.top[row]);
  v16 low = exp(sub(load16(score), top));
  v16 high = exp(sub(load16(score + 16), top));
  s.weight[row] = std::fma(s.weight[row], s.factor[row], sum_of(add(low, high)));
  if (type == dtype::int8) {
    low = mul(low, load16(scales_of_tile(chunk.tiles.values[0], s.value_dim)));
    high = mul(high, load16(scales_of_tile(chunk.tiles.values[1], s.value_dim)));
    // Invisible scales may be NaN.
    hide_others(score, chunk.view.first(t), chunk.view.end(t), 0.0F, low, high);
  }
  Products::store_probabilities(score, low, high, type);
}

/// Turns scores into probabilities for chunks in order. Each step runs over all rows and chunks before the
/// next one, because a row's own steps wait for each other.
template <class Products>
TROUPE_INLINE void softmax_rows(const seen_chunk* chunks, std::size_t count) {
  for (std::size_t c = 0; c < count; ++c) {
    const chunk_view& view = chunks[c].view;
    const score_scales scales(*view.block, chunks[c].tiles.keys, chunks[c].state.key_dim);
    chunks[c].for_rows([&](std::size_t t, std::size_t row) {
      scale_scores(chunks[c].state, row, view.first(t), view.end(t), scales);
    });
  }
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t group = chunks[c].view.block->group;
    float* factor = chunks[c].state.factor;
    for (std::size_t row = chunks[c].from * group / lanes * lanes; row < chunks[c].to * group; row += lanes)
      store(factor + row, exp(load(factor + row)));
  }
  for (std::size_t c = 0; c < count; ++c)
    chunks[c].for_rows(
        [&](std::size_t t, std::size_t row) { add_probabilities<Products>(chunks[c], t, row); });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
