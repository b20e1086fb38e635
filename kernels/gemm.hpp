// Activations times packed weights.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/context.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// How the output rows are written.
enum class gemm_output : std::uint8_t {
  replace, ///< y = x Wᵀ + bias
  add,     ///< y = fma(factor, x Wᵀ + bias, y), f32 outputs only: the residual stream
};

struct gemm_args {
  /// [rows, K], bf16 or f32. With f32 weights, bf16 rows are widened; with the others, f32 rows are rounded
  /// to bf16 first. If the weights take int8 rows (`packed_matrix::rows`), f32 and bf16 rows are quantized
  /// directly.
  const_tensor_view input;
  /// [N, K], interleave 1.
  const packed_matrix* weight = nullptr;
  /// [N], f32, added to the FP32 sum; null: none.
  const float* bias = nullptr;
  /// [rows, N], f32 or bf16 (rounded once, after the bias). Must not overlap the input.
  tensor_view output;
  gemm_output mode = gemm_output::replace;
  /// Of `add` (Granite's `residual_multiplier`).
  float factor = 1.0F;
  /// If not empty: output row i is computed from input row `input_rows[i]`, and `output.rows` counts them.
  /// For the LM head, which only some rows need.
  std::span<const std::uint32_t> input_rows{};
};

/// y = x Wᵀ + bias for any number of rows, zero included.
///
/// The order of operations depends on K alone, so a row's bits do not depend on the other rows, on threads or
/// on the instruction set. BF16, per 32 of K (zero-padded), from zero, fused, denormals flushed: even = Σ
/// x[2k] w[2k], odd = Σ x[2k+1] w[2k+1], k = 0 … 15 in order; c = c + (even + odd) (Intel's TDPBF16PS). FP32:
/// one fused multiply-add per k, in order. Quantized weights: the BF16 product with the integers q · 2²⁴
/// (int8) or q · g (int4), then one multiplication with the channel's scale (times 2⁻²⁴), then the bias; with
/// int8 rows (float(Σ of integers) · row scale) · channel scale.
/// @threads all of the context's
void gemm(context& ctx, const gemm_args& args);

} // namespace troupe::kernels
