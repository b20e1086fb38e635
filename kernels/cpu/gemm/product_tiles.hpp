// How a product of rows and packed weights is cut into tiles, and a tile into parts, as the plan says.
#pragma once

#include <cstddef>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels::cpu {

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

/// Rows and panels of one tile. Panels are neighbours, or as many neighbours of each of several runs, so that
/// a thread that takes one tile after the other reads on where it was in each run.
struct tile_shape {
  std::size_t rows = 0;
  std::size_t panels = 0; // of all runs together
  std::size_t runs = 1;
};

/// Tiles for `rows` rows. Small products get smaller tiles, so that all threads have some. On a matrix unit
/// tiles begin at multiples of 16 rows if there are several.
tile_shape tiles_for(const product_regime& regime, const packed_matrix& weight, std::size_t rows,
                     unsigned threads);

/// Panels [first, first + count) of a weight, and as many of each further run, `stride` panels apart; none
/// where `weight` is null.
struct panel_range {
  const packed_matrix* weight = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t runs = 1;
  std::size_t stride = 0;

  /// Those of one run.
  panel_range run(std::size_t index) const { return {weight, first + index * stride, count}; }
};

/// How many tiles the panels of a weight make, and the panels of one of them.
std::size_t panel_tiles(const packed_matrix& weight, const tile_shape& tile);
panel_range panel_tile(const packed_matrix& weight, const tile_shape& tile, std::size_t index);

/// How a tile's sums are made: so many rows and panels at a time that they stay near until they are used.
tile_shape part_of(const product_regime& regime, const packed_matrix& weight, const tile_shape& tile);

/// Panels of a part: a power of two, at least a pair of gate and up.
std::size_t panels_of_part(const product_regime& regime, const packed_shape& weight);

/// Whether tiles are multiplied part by part.
bool is_in_parts(const product_regime& regime);

/// Whether a part's panels are unpacked whole before rows meet them: int4, which int8 rows meet as int8, and
/// coded ones where so many rows come that they would be decoded for one part of these after the other.
bool unpacks_panels(const product_regime& regime, const packed_matrix& weight);

} // namespace troupe::kernels::cpu
