// Products with more than 32 rows, which prompts are made of, with the bits of `few_rows`.
#pragma once

#include <cstddef>

#include "kernels/cuda/few_rows.hpp"

namespace troupe::kernels::cuda {

/// Rows of an item at most.
inline constexpr std::size_t most_tiled_rows = 128;

/// What `few_rows` computes, bit for bit, with items of up to 128 rows, which meet the weights in shared
/// memory: a block loads 128 channels of weights (gated: 64 of each matrix) and 128 rows, chunk by chunk of
/// 64 inputs, share after share.
/// @errors kernel_error for sizes that it does not take
void tiled_rows(const stream& on, const few_rows_args& args);

/// Rows that items should have at most where there are `rows` for a matrix.
constexpr std::size_t item_rows_for(std::size_t rows) {
  return rows <= most_few_rows ? most_few_rows : most_tiled_rows;
}

/// One of the two, by `most_rows`.
/// @errors kernel_error for sizes that they do not take
inline void multiply_rows(const stream& on, const few_rows_args& args) {
  if (args.most_rows <= most_few_rows)
    few_rows(on, args);
  else
    tiled_rows(on, args);
}

} // namespace troupe::kernels::cuda
