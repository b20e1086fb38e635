// Which keys of a chunk the rows of a block see, and their scores as probabilities: see attention.hpp for the
// order of operations. Included by attention_kernels.hpp only.
#pragma once

#include <limits>

#include "kernels/cpu/attention_state.hpp"
#include "kernels/cpu/kernel_table.hpp"
#include "kernels/cpu/math.hpp"
#include "kernels/cpu/v16.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Which keys of a chunk the tokens of a block see.
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

/// A chunk that some token of a block sees.
struct seen_chunk {
  chunk_view view;
  std::size_t from = 0; // tokens [from, to) may see it
  std::size_t to = 0;
  const std::byte* keys[2] = {}; // its tiles
  const std::byte* values[2] = {};
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
};

/// Scales the scores of keys [first, end) that one row sees and hides the others, and raises its maximum m to
/// m'. Leaves m' in its top and m − m' in its factor.
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
  s.top[row] = now;
  s.factor[row] = before - now;
}

/// Scaled scores of one row to probabilities, which are added to its sum, once its factor is exp(m − m').
/// @tparam Products  stores them as its products take them
template <class Products>
TROUPE_INLINE void add_probabilities(const attention_state& s, std::size_t row, dtype type) {
  float* score = s.score + row * chunk_keys;
  const v16 top = splat(s.top[row]);
  const v16 low = exp(sub(load16(score), top));
  const v16 high = exp(sub(load16(score + 16), top));
  s.weight[row] = std::fma(s.weight[row], s.factor[row], sum_of(add(low, high)));
  Products::store_probabilities(score, low, high, type);
}

/// Scores to probabilities for chunks in order, one step of all rows and chunks after the other: a row's own
/// steps wait for each other.
template <class Products>
TROUPE_INLINE void softmax_rows(const seen_chunk* chunks, std::size_t count) {
  for (std::size_t c = 0; c < count; ++c)
    chunks[c].for_rows([&](std::size_t t, std::size_t row) {
      const chunk_view& view = chunks[c].view;
      scale_scores(chunks[c].state, row, view.first(t), view.end(t), view.block->scale);
    });
  for (std::size_t c = 0; c < count; ++c) {
    const std::size_t group = chunks[c].view.block->group;
    float* factor = chunks[c].state.factor;
    for (std::size_t row = chunks[c].from * group / lanes * lanes; row < chunks[c].to * group; row += lanes)
      store(factor + row, exp(load(factor + row)));
  }
  for (std::size_t c = 0; c < count; ++c)
    chunks[c].for_rows([&](std::size_t, std::size_t row) {
      add_probabilities<Products>(chunks[c].state, row, chunks[c].view.block->cache_type);
    });
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
