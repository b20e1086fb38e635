// Looks up the embeddings of token ids.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct embedding_args {
  /// [vocab, hidden], f32, bf16 or int8, dense.
  const void* table = nullptr;
  dtype type = dtype::bf16;
  std::size_t vocab = 0;
  std::size_t hidden = 0;
  /// [vocab], for int8 rows; null otherwise.
  const float* row_scales = nullptr;
  float scale = 1.0F;
  /// [rows], below `vocab`.
  const std::uint32_t* tokens = nullptr;
  std::size_t rows = 0;
  /// Learned positions, [num_positions, hidden], f32, dense; null: none.
  const float* position_table = nullptr;
  std::size_t num_positions = 0;
  /// [rows], below `num_positions`.
  const std::uint32_t* positions = nullptr;
  /// [rows, hidden], f32, dense.
  float* output = nullptr;
};

/// output[i] = table[tokens[i]] · scale; for int8 rows table[tokens[i]] · (row_scales[tokens[i]] · scale).
/// With learned positions, + position_table[positions[i]], after rounding. Same bits as `kernels::embed` and
/// `kernels::add_positions`.
void embed(const stream& on, const embedding_args& args);

} // namespace troupe::kernels::cuda
