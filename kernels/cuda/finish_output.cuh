// Finishes a product's sums: scale, bias, activation, and the store.
#pragma once

#include <cstddef>

#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/few_rows.hpp"
#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// Finishes one output of one row and stores it.
/// @param row   of the output
/// @param sums  of the item's matrix, or of its gate and up
template <unsigned Matrices>
__device__ inline void finish_output(const few_rows_args& args, const weight_matrix (&matrix)[Matrices],
                                     std::size_t row, std::size_t output, const float (&sums)[Matrices]) {
  float value[Matrices];
  for (unsigned m = 0; m < Matrices; ++m) {
    float sum = sums[m];
    if (matrix[m].channel_scales != nullptr)
      sum *= matrix[m].channel_scales[output];
    if (matrix[m].bias != nullptr)
      sum += matrix[m].bias[output];
    value[m] = sum;
  }
  float y = value[0];
  if constexpr (Matrices == 2)
    y = activated(args.act, value[0], args.act_limit) * gated_up(args.act, value[1], args.act_limit);
  else if (args.result == few_rows_result::activate)
    y = activated(args.act, y, args.act_limit);
  else if (args.result == few_rows_result::replace && args.divisor != 1.0F)
    y /= args.divisor;
  const std::size_t to = row * args.output_stride + output;
  if (args.output_type == dtype::bf16)
    static_cast<bfloat16*>(args.output)[to] = round_bf16(y);
  else if (args.result == few_rows_result::add)
    static_cast<float*>(args.output)[to] = fmaf(args.factor, y, static_cast<float*>(args.output)[to]);
  else
    static_cast<float*>(args.output)[to] = y;
}

} // namespace troupe::kernels::cuda
