// Normalisation of rows.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/context.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

struct rms_norm_args {
  /// [rows, cols], f32 or bf16.
  const_tensor_view input;
  /// [group], f32; null: none (Llama 4's queries and keys).
  const float* weight = nullptr;
  float epsilon = 1e-6F;
  /// Added to each weight (Gemma stores weight − 1).
  float weight_offset = 0.0F;
  /// [rows, cols], f32 or bf16. May be the input.
  tensor_view output;
  /// Length of each norm; 0: all columns. `cols` must be a multiple: QK-norm per head uses head_dim.
  std::size_t group = 0;
};

/// y = x / √(mean(x²) + ε) · (weight + offset), in FP32: sums in 16 lanes (element i in lane i mod 16, one
/// FMA each, in order) joined by a fixed tree (8, 4, 2, 1 apart); y = (x · r) · w, rounded once to the output
/// type; without weights y = x · r.
void rms_norm(context& ctx, const rms_norm_args& args);

struct layer_norm_args {
  const_tensor_view input;
  /// [cols], f32.
  const float* weight = nullptr;
  /// [cols], f32; null: none.
  const float* bias = nullptr;
  float epsilon = 1e-5F;
  tensor_view output;
};

/// y = (x − mean) / √(var + ε) · weight + bias, two passes, sums as in `rms_norm`; the last product and sum
/// are one FMA.
void layer_norm(context& ctx, const layer_norm_args& args);

} // namespace troupe::kernels
