// Rows added, converted and multiplied element by element.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// accumulator += rows: [rows, cols], f32 accumulator, f32 or bf16 rows.
void add_rows(context& ctx, const_tensor_view rows, tensor_view accumulator);

/// output = input in another type: f32 or bf16 either way (to bf16 rounds to nearest even). For tests: no op
/// needs rows in another type.
void convert_rows(context& ctx, const_tensor_view input, tensor_view output);

/// output = act(gate) · up: [rows, cols] f32 or bf16 each, computed in f32. For tests, which compare
/// `expert_ffn` with it: that activates sums as they come.
void gated_activation(context& ctx, activation kind, const_tensor_view gate, const_tensor_view up,
                      tensor_view output);

} // namespace troupe::kernels
