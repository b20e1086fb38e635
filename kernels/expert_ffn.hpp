// The experts' feed-forward networks, each over any number of rows, in one call.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "kernels/activation.hpp"
#include "kernels/context.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels {

/// Weights of one expert, or of a dense or shared FFN, which is an expert for all rows.
struct expert_weights {
  /// Gated: gate and up interleaved (`pack_gate_up`), [ffn, hidden] each. Otherwise the single first matrix.
  packed_matrix gate_up;
  /// [hidden, ffn].
  packed_matrix down;
  activation act = activation::silu;
  /// Of clamped_glu, which is for gated experts.
  float act_limit = usual_act_limit;
  /// [ffn] each, f32, or null. `up_bias` only for gated experts.
  const float* gate_bias = nullptr;
  const float* up_bias = nullptr;
  /// [hidden], f32, or null.
  const float* down_bias = nullptr;
  /// The memory of the three, in this order, where the weights own it.
  std::vector<float> biases{};

  bool gated() const { return gate_up.shape().interleave == 2; }

  std::size_t hidden() const { return gate_up.inputs(); }

  std::size_t ffn() const { return gate_up.outputs(); }
};

/// The rows of one expert in one call.
struct expert_segment {
  const expert_weights* weights = nullptr;
  /// One address per row: `hidden` elements of the row type. A row may occur in several segments.
  std::span<const std::byte* const> inputs;
  /// One address per row for its output, `hidden` elements of the row type. Outputs must not overlap each
  /// other or any input.
  std::span<std::byte* const> outputs;
};

struct expert_ffn_args {
  /// Any number of segments, including empty ones; several may name the same expert. Shapes may differ per
  /// segment.
  std::span<const expert_segment> segments;
  /// Type of input and output rows: bf16 with bf16 weights, f32 with f32 weights, either with quantized ones.
  dtype row_type = dtype::bf16;
};

/// For every row: down(act(gate x) · (up x)), or down(act(gate_up x)) if not gated, with biases;
/// clamped_glu's up is its own.
///
/// Rounds only here. bf16 rows: h = act(gate) · up in f32, rounded to bf16; output rounded to bf16. f32 rows
/// with f32 weights: nowhere; with quantized weights: input and h rounded to bf16. Weights that take int8
/// rows (`packed_matrix::rows`) have both quantized: the input directly from f32 or bf16, h after rounding to
/// bf16. Products as in `gemm`. A row's bits do not depend on other rows or segments. Outputs are unweighted
/// (combine.hpp weights them).
/// @threads all; split by expert, rows and panels: one row in two experts, and 512 rows in one, both use all
/// threads
void expert_ffn(context& ctx, const expert_ffn_args& args);

} // namespace troupe::kernels
