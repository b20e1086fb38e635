// Converts quantized matrices to BF16, for libraries that multiply many rows.
#pragma once

#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/weights.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct dequantize_args {
  /// int8 or int4, of every matrix.
  weight_shape shape;
  const weight_matrix* matrices = nullptr;
  std::size_t num_matrices = 0;
  /// [num_wanted]: indices into `matrices`; null: 0 to num_wanted − 1.
  const std::uint32_t* wanted = nullptr;
  std::size_t num_wanted = 0;
  /// [num_wanted, outputs, inputs], row-major.
  bfloat16* output = nullptr;
};

/// The integers q, or q · g with group scales, as BF16: exact. The channels' scales must be applied to the
/// sums (`finish_rows`), as in `few_rows`.
void dequantize(const stream& on, const dequantize_args& args);

} // namespace troupe::kernels::cuda
