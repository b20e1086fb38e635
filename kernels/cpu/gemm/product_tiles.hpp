// How a plan cuts a product of rows and packed weights into tiles, and a tile into parts.
#pragma once

#include <cstddef>

#include "kernels/cpu/gemm/plan.hpp"
#include "kernels/packed_matrix.hpp"

namespace troupe::kernels::cpu {

constexpr std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

/// Rows and panels of one tile. Panels are adjacent, or equally many adjacent ones of each of several runs:
/// so a thread that takes successive tiles continues each run's stream.
struct tile_shape {
  std::size_t rows = 0;
  std::size_t panels = 0; // of all runs together
  std::size_t runs = 1;
};

/// Tiles for `rows` rows. Small products get smaller tiles, so that all threads get some. On a matrix unit,
/// several tiles begin at multiples of 16 rows.
tile_shape tiles_for(const product_regime& regime, const packed_matrix& weight, std::size_t rows,
                     unsigned threads);

/// Panels [first, first + count) of a weight, and as many of each further run, `stride` panels apart; none if
/// `weight` is null.
struct panel_range {
  const packed_matrix* weight = nullptr;
  std::size_t first = 0;
  std::size_t count = 0;
  std::size_t runs = 1;
  std::size_t stride = 0;

  /// The panels of one run.
  panel_range run(std::size_t index) const { return {weight, first + index * stride, count}; }
};

/// The number of tiles for the panels of a weight, and the panels of one of them.
std::size_t panel_tiles(const packed_matrix& weight, const tile_shape& tile);
panel_range panel_tile(const packed_matrix& weight, const tile_shape& tile, std::size_t index);

/// Rows and panels of a part: few enough that their sums stay in near caches until they are used.
tile_shape part_of(const product_regime& regime, const packed_matrix& weight, const tile_shape& tile);

/// Panels of a part: a power of two, at least a pair of gate and up.
std::size_t panels_of_part(const product_regime& regime, const packed_shape& weight);

/// Whether tiles are multiplied part by part.
bool is_in_parts(const product_regime& regime);

/// Whether a part's panels are unpacked as a whole before the products. True for int4 with int8 rows, and for
/// coded panels that would otherwise be decoded for several parts of many rows.
bool unpacks_panels(const product_regime& regime, const packed_matrix& weight);

} // namespace troupe::kernels::cpu
