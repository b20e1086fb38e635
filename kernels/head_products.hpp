// Products with one matrix for each head.
#pragma once

#include <cstddef>
#include <span>

#include "kernels/context.hpp"
#include "kernels/packed_matrix.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

struct head_products_args {
  /// [rows, …], f32 or bf16: the K inputs of head h begin at column h · input_step.
  const_tensor_view input;
  std::size_t input_step = 0;
  /// Of each head, [N, K]: all of one shape, format and kind of rows, interleave 1.
  std::span<const packed_matrix> weights;
  /// [rows, …], f32 or bf16: the N outputs of head h begin at column h · output_step, at least N. Other
  /// columns are not written. Must not overlap the input.
  tensor_view output;
  std::size_t output_step = 0;
};

/// y_h = x_h W_hᵀ for every head h: in multi-head latent attention W_kb, absorbed into the query, and W_vb on
/// the output. Each product has the bits of `gemm`.
/// @threads all; split over heads, rows and panels
void head_products(context& ctx, const head_products_args& args);

} // namespace troupe::kernels
