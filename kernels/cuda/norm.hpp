// Normalisation of rows.
#pragma once

#include <cstddef>

#include "kernels/cuda/device.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct norm_args {
  /// [rows, cols], f32 or bf16, strides in elements.
  const void* input = nullptr;
  dtype input_type = dtype::f32;
  std::size_t input_stride = 0;
  std::size_t rows = 0;
  std::size_t cols = 0;
  /// [cols], f32.
  const float* weight = nullptr;
  /// [cols], f32, or null; only for layer_norm.
  const float* bias = nullptr;
  float epsilon = 1e-6F;
  /// Added to each weight; only for rms_norm.
  float weight_offset = 0.0F;
  /// [rows, cols], f32 or bf16 (rounded once). May be the input if the types are equal.
  void* output = nullptr;
  dtype output_type = dtype::bf16;
  std::size_t output_stride = 0;
};

/// y = x / √(mean(x²) + ε) · (weight + offset). A row's bits depend on the row alone: element i goes to
/// thread i mod 256, one FMA each in order, then the tree of warp.cuh.
void rms_norm(const stream& on, const norm_args& args);

/// y = (x − mean) / √(var + ε) · weight + bias, two passes, sums as above.
void layer_norm(const stream& on, const norm_args& args);

} // namespace troupe::kernels::cuda
