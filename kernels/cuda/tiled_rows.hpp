// Products with more than 32 rows, as in prompts, with the bits of `few_rows`.
#pragma once

#include <cstddef>

#include "kernels/cuda/few_rows.hpp"

namespace troupe::kernels::cuda {

/// Most rows of an item.
inline constexpr std::size_t most_tiled_rows = 128;

/// Same bits as `few_rows`, for items of up to 128 rows. Weights are shared through shared memory: a block
/// loads 128 channels of weights (gated: 64 of each matrix) and 128 rows, in chunks of 64 inputs, share after
/// share.
/// @throws kernel_error  unsupported sizes
void tiled_rows(const stream& on, const few_rows_args& args);

/// Most rows of an item if a matrix has `rows` rows.
constexpr std::size_t item_rows_for(std::size_t rows) {
  return rows <= most_few_rows ? most_few_rows : most_tiled_rows;
}

/// Calls one of the two, by `most_rows`.
/// @throws kernel_error  unsupported sizes
inline void multiply_rows(const stream& on, const few_rows_args& args) {
  if (args.most_rows <= most_few_rows)
    few_rows(on, args);
  else
    tiled_rows(on, args);
}

} // namespace troupe::kernels::cuda
