// Causal attention of a flat batch of rows over the paged KV cache, for decoding and for prompts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kv_layout.hpp"
#include "kernels/cuda/row_runs.hpp"

namespace troupe::kernels::cuda {

/// Keys of a span: positions 0 to 255, 256 to 511, and so on. A row's sums over each span are computed
/// separately, then joined in order, so the size is part of the definition of the result.
inline constexpr std::size_t span_keys = 256;

/// Spans that a row at the last position sees.
constexpr std::size_t spans_of(std::size_t most_position) {
  return most_position / span_keys + 1;
}

/// (row, head of a group) pairs that share a block's keys and values.
inline constexpr std::size_t most_pairs_of_block = 64;

/// Most rows of a run for which one block suffices.
/// @param group  query heads of a KV head
constexpr std::size_t most_run_rows_for(std::size_t group) {
  return group < most_pairs_of_block ? most_pairs_of_block / group : 1;
}

/// Pointers are to device memory.
struct attention_args {
  kv_layer cache;
  /// [rows, heads · head_dim], bf16, dense, after rotation; 16-byte aligned.
  const bfloat16* query = nullptr;
  std::size_t heads = 0;
  /// Rows first_row to first_row + rows − 1 are computed; other rows of `query`, `positions` and `output` are
  /// not accessed.
  std::size_t first_row = 0;
  std::size_t rows = 0;
  /// [rows]: a row sees keys 0 to its position (or the last `sliding_window`).
  const std::uint32_t* positions = nullptr;
  /// [num_runs]: the same rows as runs; a run's sequence is its row in `block_tables`.
  const row_run* runs = nullptr;
  std::size_t num_runs = 0;
  /// Most rows of any run.
  std::size_t most_run_rows = 0;
  /// [num_sequences, table_width]: token p of sequence s lies in block block_tables[s · table_width + p /
  /// block_tokens].
  const std::uint32_t* block_tables = nullptr;
  std::size_t num_sequences = 0;
  std::size_t table_width = 0;
  float scale = 1.0F;
  /// 0: all.
  std::size_t sliding_window = 0;
  /// A row sees only keys of its own chunk: key j and position p with j / chunk = p / chunk; 0: all. Not
  /// together with a sliding window.
  std::uint32_t chunk = 0;
  /// [heads], a logit that is part of the softmax and has no value; null: none.
  const float* sinks = nullptr;
  /// Bound of all positions; determines the number of spans.
  std::size_t most_position = 0;
  /// `attention_workspace_floats` floats.
  float* workspace = nullptr;
  /// [rows, heads · head_dim], or heads · value_dim of a latent layer; bf16, dense.
  bfloat16* output = nullptr;
};

std::size_t attention_workspace_floats(const attention_args& args);

/// softmax(scale · q kᵀ) v, heads / kv_heads query heads a KV head. A warp multiplies 16 pairs of row and
/// head with the keys of one span on the tensor cores, 32 keys at a time with a running maximum. As on the
/// CPU, probabilities are rounded to BF16 before they are multiplied with values, and int8 caches are
/// multiplied as integers. A second kernel joins the spans in order.
///
/// A latent layer has a kernel of its own (latent_attention.cu): four warps share 16 pairs, for scores each
/// with 8 of the 32 keys, for sums each with 128 dimensions of the values, which are read from the keys.
///
/// A row's bits depend on its query and visible keys only, not on the rest of the batch or its division into
/// runs: a token has the same bits in decoding and in a prompt. Invisible keys have a probability of 0. So a
/// NaN or infinite value at a later position of a sequence may affect a row in the same run.
/// @source "FlashAttention-2": rows kept, keys streamed, sums rescaled; "FlashDecoding": split along the
/// keys, one more kernel to join; GQA: the heads of a group count as rows and share each load
void attention(const stream& on, const attention_args& args);

} // namespace troupe::kernels::cuda
