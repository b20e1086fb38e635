// Adds the experts' outputs to the residual stream.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

struct combine_args {
  /// [rows · top_k]: address of the output row of (row, slot), `residual.cols` elements of `row_type`. Null
  /// skips the slot. Slots are processed in top-k order.
  std::span<const std::byte* const> rows;
  /// [rows · top_k], f32.
  std::span<const float> weights;
  std::size_t top_k = 0;
  dtype row_type = dtype::bf16;
  /// [rows, hidden], f32.
  tensor_view residual;
};

/// residual[r] += Σ over slots of weight · row: sum = w₀ · row₀, then one FMA per slot in order, then one
/// addition.
void combine(context& ctx, const combine_args& args);

struct shared_gate_args {
  /// [rows, hidden], f32 or bf16: the shared expert's input.
  const_tensor_view input;
  /// [hidden], f32: the gate's weights; null: no gate, and 1 in its place.
  const float* gate = nullptr;
  /// On top of the gate (Granite's `residual_multiplier`).
  float factor = 1.0F;
  /// [rows, hidden], f32 or bf16: the shared expert's output.
  const_tensor_view shared;
  /// [rows, hidden], f32.
  tensor_view residual;
};

/// residual[r] += factor · sigmoid(input[r] · gate) · shared[r] (Qwen-MoE): the dot in 16 lanes and the fixed
/// tree, one FMA per element.
void add_shared_expert(context& ctx, const shared_gate_args& args);

} // namespace troupe::kernels
