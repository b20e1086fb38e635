// Elementwise arithmetic of rows.
#pragma once

#include <span>

#include "kernels/activation.hpp"
#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// accumulator = fma(factor, rows, accumulator): [rows, cols], f32 accumulator, f32 or bf16 rows. With factor
/// 1 this is the addition.
void add_rows(context& ctx, const_tensor_view rows, tensor_view accumulator, float factor = 1.0F);

/// rows /= divisor: [rows, cols], f32, in place (logits by Granite's `logits_scaling`).
void divide_rows(context& ctx, tensor_view rows, float divisor);

/// output[r] = factors[r] · input[r]: [rows, cols], f32 or bf16 (rounded to nearest even).
/// @param factors  [rows]
void scale_rows(context& ctx, const_tensor_view input, std::span<const float> factors, tensor_view output);

/// output = input in another type: f32 or bf16 (rounded to nearest even). For tests: no op needs it.
void convert_rows(context& ctx, const_tensor_view input, tensor_view output);

/// output = act(gate) · up, with clamped_glu's up: [rows, cols] f32 or bf16 each, computed in f32. For tests
/// of `expert_ffn`, which fuses this with its sums.
void gated_activation(context& ctx, activation kind, const_tensor_view gate, const_tensor_view up,
                      tensor_view output, float limit = usual_act_limit);

} // namespace troupe::kernels
