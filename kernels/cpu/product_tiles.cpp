#include "kernels/cpu/product_tiles.hpp"

#include <algorithm>

#include "kernels/cpu/row_map.hpp"

namespace troupe::kernels::cpu {

namespace {

constexpr std::size_t many_rows = 192; // × 256 of K × 4 bytes = 192 KiB of L2
constexpr std::size_t many_panels = 8;
constexpr std::size_t tiles_per_thread = 8; // so that none waits long for the last
constexpr std::size_t streams = 4;

// Where few rows read a tile's panels as streams: these begin anew with every tile, and a thread has nothing
// on its way meanwhile, so tiles are large.
constexpr std::size_t stream_tile_bytes = std::size_t{512} << 10;
constexpr std::size_t stream_tiles_per_thread = 2;

// On a matrix unit: bytes of rows that stay in L2 with the panels that pass, and panels of a tile, more of
// few rows, so that a tile is worth taking.
constexpr std::size_t tile_rows_bytes = std::size_t{1} << 19;
constexpr std::size_t tile_floats = std::size_t{64} * 1024;
constexpr std::size_t tile_panels = 16;

// What the panels of a part take together at most.
constexpr std::size_t part_bytes = std::size_t{256} << 10;
constexpr std::size_t unpacked_part_panels = 4; // of weights that BF16 rows have unpacked

// A power of two, so that halves hold whole pairs of gate and up.
std::size_t panels_of_streams(const packed_shape& weight) {
  std::size_t panels = streams;
  while (2 * panels * weight.panel_bytes() <= stream_tile_bytes)
    panels *= 2;
  return panels;
}

tile_shape matrix_unit_tile(row_layout layout, const packed_shape& weight, std::size_t rows) {
  const std::size_t most =
      std::max<std::size_t>(tile_rows_bytes / (row_stride_of(layout, weight.inputs) / 16) / 32 * 32, 64);
  tile_shape tile{rows, rows <= 16 ? panels_of_streams(weight) : many_panels};
  if (rows > most) // split evenly, in whole pairs of tiles
    tile.rows = ceil_div(ceil_div(rows, ceil_div(rows, most)), 32) * 32;
  if (rows > 16) // a power of two, so that halves hold whole pairs of gate and up
    while (tile.panels < tile_panels && 2 * tile.panels * tile.rows * panel_columns <= tile_floats)
      tile.panels *= 2;
  return tile;
}

// Runs of panels that so few rows are to read side by side.
std::size_t runs_for(const kernel_table& table, row_layout layout, const packed_shape& weight,
                     std::size_t rows) {
  rows_in_runs wanted;
  if (layout == row_layout::int8)
    wanted =
        weight.format == packed_format::int8_channel ? table.quant.int8_run_rows : table.quant.int4_run_rows;
  else if (layout == row_layout::bf16_dots && weight.format == packed_format::bf16_coded)
    wanted = table.coded_run_rows;
  else if ((layout == row_layout::bf16_dots || layout == row_layout::bf16_split)
           && weight.format == packed_format::bf16_pair)
    wanted = table.bf16_run_rows;
  return wanted.has(rows) && weight.panels() >= panel_runs * weight.interleave ? panel_runs : 1;
}

// Panels of a run, a whole number of pairs of gate and up; what is left over of all runs is no run.
std::size_t panels_of_run(const packed_matrix& weight, const tile_shape& tile) {
  const std::size_t unit = tile.runs * weight.shape().interleave;
  return weight.shape().panels() / unit * weight.shape().interleave;
}

} // namespace

tile_shape tiles_for(const kernel_table& table, const packed_matrix& weight, std::size_t rows,
                     unsigned threads) {
  const packed_shape& shape = weight.shape();
  const row_layout layout = layout_for(table, weight, rows);
  // Integer products walk four panels and fetch the next four.
  const bool few = rows <= few_rows && layout != row_layout::int8;
  tile_shape tile{std::min(rows, many_rows), few ? streams : many_panels};
  if (table.panels_in_streams && layout == row_layout::int8)
    tile.panels = panels_of_streams(shape);
  if (in_tiles(layout))
    tile = matrix_unit_tile(layout, shape, rows);
  else if (rows > many_rows) // rows split evenly
    tile.rows = ceil_div(rows, ceil_div(rows, many_rows));
  tile.runs = runs_for(table, layout, shape, rows);
  if (tile.runs > 1)
    tile.panels = many_panels;
  const auto tiles = [&] { return ceil_div(rows, tile.rows) * ceil_div(shape.panels(), tile.panels); };
  const std::size_t least = (table.panels_in_streams ? stream_tiles_per_thread : tiles_per_thread) * threads;
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

bool unpacks_panels(row_layout layout, const packed_matrix& weight, std::size_t rows) {
  if (layout == row_layout::int8_tiles)
    return weight.format() != packed_format::int8_channel;
  return layout == row_layout::bf16_tiles && weight.format() == packed_format::bf16_coded
         && rows > tile_part.rows;
}

bool streams_panels(row_layout layout, const packed_matrix& weight, std::size_t rows) {
  if (unpacks_panels(layout, weight, rows)) // also for the few rows of a large product's last tile
    return false;
  const bool as_they_come = layout == row_layout::int8_tiles ? weight.format() == packed_format::int8_channel
                                                             : !is_quantized(weight.format());
  return rows <= (as_they_come ? 32U : 16U);
}

std::size_t panels_of_part(const packed_shape& weight) {
  std::size_t panels = tile_part.panels;
  while (panels > 2 && panels * weight.panel_bytes() > part_bytes)
    panels /= 2;
  return panels;
}

tile_shape part_of(row_layout layout, const packed_matrix& weight, const tile_shape& tile) {
  if (!in_tiles(layout) || streams_panels(layout, weight, tile.rows))
    return tile;
  // Weights that are unpacked for BF16 rows are so again for every part.
  if (layout == row_layout::bf16_tiles && is_quantized(weight.format()))
    return {tile.rows, unpacked_part_panels};
  return {ceil_div(ceil_div(tile.rows, ceil_div(tile.rows, tile_part.rows)), 32) * 32,
          panels_of_part(weight.shape())};
}

} // namespace troupe::kernels::cpu
