// Reads and writes numbers of f32 or bf16 rows as FP32.
#pragma once

#include <cstddef>

#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/launch.cuh"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

__device__ inline float number_at(const void* row, dtype type, std::size_t index) {
  return type == dtype::f32 ? static_cast<const float*>(row)[index]
                            : to_float(static_cast<const bfloat16*>(row)[index]);
}

__device__ inline void set_number(void* row, dtype type, std::size_t index, float value) {
  if (type == dtype::f32)
    static_cast<float*>(row)[index] = value;
  else
    static_cast<bfloat16*>(row)[index] = round_bf16(value);
}

/// Row `r` of rows that are `stride` elements apart.
__device__ inline const void* row_at(const void* rows, dtype type, std::size_t stride, std::size_t r) {
  return static_cast<const std::byte*>(rows) + bytes_of(type, stride) * r;
}

__device__ inline void* row_at(void* rows, dtype type, std::size_t stride, std::size_t r) {
  return static_cast<std::byte*>(rows) + bytes_of(type, stride) * r;
}

} // namespace troupe::kernels::cuda
