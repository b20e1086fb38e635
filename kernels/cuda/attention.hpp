// Causal attention of a flat batch of rows over the paged KV cache, for decoding and for prompts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kv_layout.hpp"
#include "kernels/cuda/row_runs.hpp"

namespace troupe::kernels::cuda {

/// Keys of a span: position 0 to 255, 256 to 511, and so on. A row's sums over a span are computed apart from
/// its other spans', then joined in order, so the size is part of the definition of the result.
inline constexpr std::size_t span_keys = 256;

/// Spans that a row with the last position sees.
constexpr std::size_t spans_of(std::size_t most_position) {
  return most_position / span_keys + 1;
}

/// (row, head of a group) pairs that a block works on, sharing the keys and values that it loads.
inline constexpr std::size_t most_pairs_of_block = 64;

/// Rows that a run should have at most, so that one block takes it.
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
  /// Rows first_row to first_row + rows − 1 are computed; all others of `query`, `positions` and `output`
  /// are not touched.
  std::size_t first_row = 0;
  std::size_t rows = 0;
  /// [rows]: a row sees keys 0 to its position (or the last `sliding_window`).
  const std::uint32_t* positions = nullptr;
  /// [num_runs]: the same rows as runs, whose sequence says which row of `block_tables` is theirs.
  const row_run* runs = nullptr;
  std::size_t num_runs = 0;
  /// No run has more.
  std::size_t most_run_rows = 0;
  /// [num_sequences, table_width]: token p of sequence s lies in block block_tables[s · table_width + p /
  /// block_tokens].
  const std::uint32_t* block_tables = nullptr;
  std::size_t num_sequences = 0;
  std::size_t table_width = 0;
  float scale = 1.0F;
  /// 0: all.
  std::size_t sliding_window = 0;
  /// [heads], a logit that takes part in the softmax and has no value; null: none.
  const float* sinks = nullptr;
  /// No position is above this; decides how many spans there are.
  std::size_t most_position = 0;
  /// `attention_workspace_floats` of them.
  float* workspace = nullptr;
  /// [rows, heads · head_dim], bf16, dense.
  bfloat16* output = nullptr;
};

std::size_t attention_workspace_floats(const attention_args& args);

/// softmax(scale · q kᵀ) v, heads / kv_heads query heads a KV head. A warp multiplies 16 pairs of row and
/// head with the keys of one span on the tensor cores, 32 keys at a time with a running maximum; as on the
/// CPU, probabilities are rounded to BF16 before they meet the values, and of int8 caches the integers are
/// multiplied. A second kernel joins the spans in order.
///
/// A row's bits depend on its query and the keys it sees, not on what else is in the batch or on how it is
/// cut into runs: a token has the same bits whether it was decoded or came with a prompt. Keys that a row
/// does not see count with a probability of 0, so a value of NaN or infinity at a later position of its
/// sequence may reach it when both are in one run.
/// @source "FlashAttention-2": rows kept, keys streamed, sums rescaled; "FlashDecoding": split along the
/// keys,
///         one more kernel to join; GQA: the heads of a group count as rows and share each load
void attention(const stream& on, const attention_args& args);

} // namespace troupe::kernels::cuda
