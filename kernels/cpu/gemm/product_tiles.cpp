#include "kernels/cpu/gemm/product_tiles.hpp"

#include <algorithm>

#include "kernels/cpu/gemm/row_map.hpp"

namespace troupe::kernels::cpu {

namespace {

constexpr std::size_t most_panels_of_sums = 16;

row_layout layout_for(const product_regime& regime, const packed_matrix& weight) {
  return layout_of(regime.kernel, kind_of(weight.format(), weight.rows()));
}

// Panels of a run, a whole number of pairs of gate and up; the remainder belongs to no run.
std::size_t panels_of_run(const packed_matrix& weight, const tile_shape& tile) {
  const std::size_t unit = tile.runs * weight.shape().interleave;
  return weight.shape().panels() / unit * weight.shape().interleave;
}

std::size_t most_rows_of_tile(const product_regime& regime, const packed_matrix& weight) {
  if (regime.tile_row_bytes == 0)
    return regime.tile_rows;
  const std::size_t bytes_of_row = row_stride_of(layout_for(regime, weight), weight.inputs()) / 16;
  return std::max<std::size_t>(regime.tile_row_bytes / bytes_of_row / 32 * 32, 64);
}

} // namespace

tile_shape tiles_for(const product_regime& regime, const packed_matrix& weight, std::size_t rows,
                     unsigned threads) {
  const packed_shape& shape = weight.shape();
  tile_shape tile{rows, regime.tile_panels};
  if (const std::size_t most = most_rows_of_tile(regime, weight); rows > most) {
    tile.rows = ceil_div(rows, ceil_div(rows, most)); // split evenly
    if (in_tiles(layout_for(regime, weight)))
      tile.rows = ceil_div(tile.rows, 32) * 32; // in whole pairs of tiles
  }
  while (2 * tile.panels * shape.panel_bytes() <= regime.tile_bytes)
    tile.panels *= 2;
  while (tile.panels < most_panels_of_sums && 2 * tile.panels * tile.rows * panel_columns <= regime.tile_sums)
    tile.panels *= 2;
  if (reads_runs(regime.kernel) && shape.panels() >= panel_runs * shape.interleave)
    tile.runs = panel_runs;
  const auto tiles = [&] { return ceil_div(rows, tile.rows) * ceil_div(shape.panels(), tile.panels); };
  const std::size_t least = regime.tiles_per_thread * threads;
  while (rows > 0 && tile.panels > tile.runs * shape.interleave && tiles() < least)
    tile.panels /= 2;
  return tile;
}

std::size_t panel_tiles(const packed_matrix& weight, const tile_shape& tile) {
  const std::size_t of_run = panels_of_run(weight, tile);
  return ceil_div(of_run, tile.panels / tile.runs)
         + ceil_div(weight.shape().panels() - tile.runs * of_run, tile.panels);
}

panel_range panel_tile(const packed_matrix& weight, const tile_shape& tile, std::size_t index) {
  const std::size_t of_run = panels_of_run(weight, tile);
  const std::size_t at_once = tile.panels / tile.runs;
  const std::size_t in_runs = ceil_div(of_run, at_once);
  if (index < in_runs) {
    const std::size_t first = index * at_once;
    return {&weight, first, std::min(at_once, of_run - first), tile.runs, of_run};
  }
  const std::size_t first = tile.runs * of_run + (index - in_runs) * tile.panels;
  return {&weight, first, std::min(tile.panels, weight.shape().panels() - first)};
}

bool is_in_parts(const product_regime& regime) {
  return regime.kernel == product_kernel::tiles || regime.kernel == product_kernel::tiles_decoded
         || regime.kernel == product_kernel::integer_tiles;
}

bool unpacks_panels(const product_regime& regime, const packed_matrix& weight) {
  return regime.kernel == product_kernel::tiles_decoded
         || (regime.kernel == product_kernel::integer_tiles
             && weight.format() != packed_format::int8_channel);
}

std::size_t panels_of_part(const product_regime& regime, const packed_shape& weight) {
  std::size_t panels = regime.part_panels;
  while (regime.part_bytes != 0 && panels > 2 && panels * weight.panel_bytes() > regime.part_bytes)
    panels /= 2;
  return panels;
}

tile_shape part_of(const product_regime& regime, const packed_matrix& weight, const tile_shape& tile) {
  if (!is_in_parts(regime))
    return tile;
  tile_shape part{tile.rows, panels_of_part(regime, weight.shape())};
  if (regime.part_rows != 0)
    part.rows = ceil_div(ceil_div(tile.rows, ceil_div(tile.rows, regime.part_rows)), 32) * 32;
  return part;
}

} // namespace troupe::kernels::cpu
