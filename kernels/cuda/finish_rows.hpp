// Finishes the rows of a library's product: channels' scales, bias, activation.
#pragma once

#include "kernels/activation.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/few_rows.hpp"
#include "kernels/cuda/weights.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory; rows are dense.
struct finish_rows_args {
  /// [rows, cols], f32 or bf16: the sums; for `activate_gated` those of the gates.
  const void* sums = nullptr;
  /// [rows, cols]: the sums of the ups.
  const void* up_sums = nullptr;
  dtype sums_type = dtype::bf16;
  std::size_t rows = 0;
  std::size_t cols = 0;
  /// The matrices with scales and biases: as in `few_rows`, in pairs for `activate_gated`.
  const weight_matrix* matrices = nullptr;
  std::size_t num_matrices = 0;
  /// [num_items], in order of their rows, of any number; rows outside of all items stay unchanged. Null: all
  /// rows belong to matrix 0.
  const row_item* items = nullptr;
  std::size_t num_items = 0;
  few_rows_result result = few_rows_result::replace;
  activation act = activation::silu;
  float act_limit = usual_act_limit;
  /// [rows, cols], f32 or bf16; may be `sums` if the types are equal.
  void* output = nullptr;
  dtype output_type = dtype::bf16;
};

/// The final part of `few_rows` alone.
void finish_rows(const stream& on, const finish_rows_args& args);

} // namespace troupe::kernels::cuda
