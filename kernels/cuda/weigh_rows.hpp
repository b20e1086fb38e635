// Multiplies the inputs of experts with their weights, where a model weighs inputs and not outputs (Llama 4).
#pragma once

#include <cstddef>

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct weigh_rows_args {
  /// [rows, hidden], bf16, dense.
  const bfloat16* input = nullptr;
  std::size_t rows = 0;
  std::size_t hidden = 0;
  /// [rows], f32; 1 afterwards, so that outputs count once.
  float* weights = nullptr;
  /// [rows, hidden], bf16, dense; not the input.
  bfloat16* output = nullptr;
};

/// output[r] = weights[r] · input[r], rounded once. Same bits as `kernels::scale_rows`.
void weigh_rows(const stream& on, const weigh_rows_args& args);

} // namespace troupe::kernels::cuda
