// Products with one matrix for each head, as items of `few_rows` or `tiled_rows`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cuda/few_rows.hpp"

namespace troupe::kernels::cuda {

/// The items of y_h = x_h W_hᵀ for every head h, whose matrix is number h: in multi-head latent attention
/// W_kb, absorbed into the query, and W_vb on the output.
///
/// Inputs and outputs of the heads of a row lie `input_stride` and `output_stride` elements apart, and those
/// of the next row follow: [rows, heads · stride]. So few_rows_args has heads · rows rows, and `row_step`
/// heads.
/// @param most_rows  of an item: `item_rows_for(rows)`
inline std::vector<row_item> head_items(std::size_t heads, std::size_t rows, std::size_t most_rows) {
  std::vector<row_item> items;
  for (std::size_t h = 0; h < heads; ++h)
    for (std::size_t first = 0; first < rows; first += most_rows)
      items.push_back({static_cast<std::uint32_t>(h), static_cast<std::uint32_t>(first * heads + h),
                       static_cast<std::uint32_t>(std::min(most_rows, rows - first))});
  return items;
}

} // namespace troupe::kernels::cuda
