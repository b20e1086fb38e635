// Adds the experts' outputs to the residual stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct combine_args {
  /// [num_outputs, hidden], f32 or bf16, dense: the experts' outputs, in any order.
  const void* outputs = nullptr;
  dtype type = dtype::bf16;
  std::size_t num_outputs = 0;
  /// [rows, top_k]: index of the output of (row, slot); `no_place` (expert_table.hpp): none. Null: output row
  /// · top_k + slot.
  const std::uint32_t* positions = nullptr;
  /// [rows, top_k], f32.
  const float* weights = nullptr;
  std::size_t top_k = 0;
  std::size_t rows = 0;
  std::size_t hidden = 0;
  /// [rows, hidden], f32, `residual_stride` elements apart.
  float* residual = nullptr;
  std::size_t residual_stride = 0;
};

/// residual[r] += Σ over slots of weight · output: sum = w₀ · o₀, then one FMA per slot in order, then one
/// addition. Same bits as `kernels::combine`.
void combine(const stream& on, const combine_args& args);

/// Pointers are to device memory; rows are dense except for the residual.
struct shared_expert_args {
  /// [rows, hidden], bf16: the shared expert's input, for the gate.
  const bfloat16* input = nullptr;
  /// [hidden], f32; null: no gate, and this adds rows.
  const float* gate = nullptr;
  /// On top of the gate.
  float factor = 1.0F;
  /// [rows, hidden], f32 or bf16: the shared expert's output.
  const void* output = nullptr;
  dtype type = dtype::bf16;
  std::size_t rows = 0;
  std::size_t hidden = 0;
  float* residual = nullptr;
  std::size_t residual_stride = 0;
};

/// residual[r] += factor · sigmoid(input[r] · gate) · output[r], one FMA per element.
void add_shared_expert(const stream& on, const shared_expert_args& args);

} // namespace troupe::kernels::cuda
