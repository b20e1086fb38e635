// Causal attention of a flat batch of rows over the paged KV cache.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/kv_layout.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct attention_args {
  kv_layer cache;
  /// [rows, heads · head_dim], bf16, dense, after rotation; 16-byte aligned.
  const bfloat16* query = nullptr;
  std::size_t rows = 0;
  std::size_t heads = 0;
  /// [rows]: whose row of `block_tables` it is, and that it sees keys 0 to position (or the last
  /// `sliding_window`).
  const std::uint32_t* sequences = nullptr;
  const std::uint32_t* positions = nullptr;
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
  /// Keys of a split, which a block works through: a multiple of `split_granule`. Fixed for a process, the
  /// batch-invariant mode: a row's bits do not depend on what else is in the batch. Chosen per batch
  /// (`split_keys_for`), few long rows fill the device.
  std::size_t split_keys = 0;
  /// No position is above this; decides how many splits there are.
  std::size_t most_position = 0;
  /// `attention_workspace_floats` of them.
  float* workspace = nullptr;
  /// [rows, heads · head_dim], bf16, dense.
  bfloat16* output = nullptr;
};

inline constexpr std::size_t split_granule = 64;

/// The fixed size: 8k keys make 16 splits.
inline constexpr std::size_t invariant_split_keys = 512;

/// Splits that a row with the last position has.
constexpr std::size_t splits_of(std::size_t most_position, std::size_t split_keys) {
  return most_position / split_keys + 1;
}

/// Keys of a split such that a batch fills a device of so many multiprocessors, as far as there is work for
/// it.
/// @param most_position  of all rows
std::size_t split_keys_for(std::size_t rows, std::size_t kv_heads, std::size_t most_position,
                           unsigned multiprocessors);

std::size_t attention_workspace_floats(const attention_args& args);

/// softmax(scale · q kᵀ) v, heads / kv_heads query heads a KV head, FP32 inside. Keys are dealt out to the
/// workers of a block by their position; each goes through its own in order with one running maximum, and the
/// workers' sums, then the splits', are joined in order. So a row's bits depend on its query, the keys it
/// sees and `split_keys`. Keys that a row does not see never touch it.
/// @source "FlashDecoding": split along the keys, one more kernel to join; GQA: the heads of a group share
/// each load
void attention(const stream& on, const attention_args& args);

} // namespace troupe::kernels::cuda
