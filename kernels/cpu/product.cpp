#include "kernels/cpu/product.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/quant_product.hpp"

namespace troupe::kernels::cpu {

namespace {

constexpr std::size_t block_k = 32;
constexpr std::size_t block_bytes = 1024; // a panel's 32 of K in BF16

// Up to this many rows the weights are expanded in registers, again for every register block of rows; with
// more, once into FP32 in L1.
constexpr std::size_t direct_rows = 12;

// K of an expanded panel chunk: 16 KiB of L1.
constexpr std::size_t chunk_blocks = 8;
constexpr std::size_t chunk_k = chunk_blocks * block_k;

// Unpacked weights of a thread: that chunk, or what a matrix unit multiplies at a time.
constexpr std::size_t unpacked_bytes = std::size_t{32} << 10;
static_assert(unpacked_bytes >= chunk_k * panel_columns * sizeof(float));

// So few rows meet quantized weights in vector registers, even where there is a matrix unit: unpacking into
// memory first takes as long as they do.
constexpr std::size_t quant_vector_rows = 2;

constexpr std::size_t many_rows = 192; // × 256 of K × 4 bytes = 192 KiB of L2
constexpr std::size_t many_panels = 8;
constexpr std::size_t streams = 4;

// On a matrix unit: rows whose BF16 stay in L2 with the panels that pass, and panels of a tile, the more the
// fewer rows there are, because the first panels of a tile are not fetched ahead.
constexpr std::size_t tile_rows_bytes = std::size_t{1} << 20;
constexpr std::size_t tile_floats = 64 * 1024; // floats
constexpr std::size_t tile_panels = 16;

void multiply_bf16(const kernel_table& table, const packed_matrix& weight, const float* a, std::size_t rows,
                   std::size_t first, std::size_t panels, float* c, float* expanded) {
  const std::size_t stride = product_stride(weight.inputs());
  const std::size_t blocks = weight.shape().padded_inputs() / block_k;
  if (rows <= direct_rows) {
    // One block of each panel in turn: streams interleave by 1 KiB.
    for (std::size_t b = 0; b < blocks; ++b)
      for (std::size_t p = 0; p < panels; ++p)
        table.bf16_direct(a + b * block_k, stride, rows, weight.panel(first + p) + b * block_bytes, 1,
                          c + p * rows * panel_columns, panel_columns);
    return;
  }
  for (std::size_t b = 0; b < blocks; b += chunk_blocks) {
    const std::size_t count = std::min(chunk_blocks, blocks - b);
    for (std::size_t p = 0; p < panels; ++p) {
      table.expand_bf16(weight.panel(first + p) + b * block_bytes, count, expanded);
      table.bf16_expanded(a + b * block_k, stride, rows, expanded, count, c + p * rows * panel_columns,
                          panel_columns);
    }
  }
}

void multiply_f32(const kernel_table& table, const packed_matrix& weight, const float* a, std::size_t rows,
                  std::size_t first, std::size_t panels, float* c) {
  const std::size_t stride = product_stride(weight.inputs());
  const std::size_t inputs = weight.inputs();
  const std::size_t step = rows <= direct_rows ? 16 : chunk_k;
  for (std::size_t k = 0; k < inputs; k += step)
    for (std::size_t p = 0; p < panels; ++p)
      table.f32_panel(a + k, stride, rows,
                      reinterpret_cast<const float*>(weight.panel(first + p)) + k * panel_columns,
                      std::min(step, inputs - k), c + p * rows * panel_columns, panel_columns);
}

row_layout layout_for(const kernel_table& table, const packed_matrix& weight, std::size_t rows) {
  if (weight.format() == packed_format::f32_panel)
    return row_layout::f32;
  if (weight.rows() == row_quant::int8)
    return row_layout::int8;
  if (table.bf16_tiles == nullptr || (is_quantized(weight.format()) && rows <= quant_vector_rows))
    return row_layout::bf16_split;
  return row_layout::bf16_tiles;
}

std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

tile_shape matrix_unit_tile(const packed_shape& weight, std::size_t rows) {
  const std::size_t most =
      std::max<std::size_t>(tile_rows_bytes / (weight.padded_inputs() * 2) / 32 * 32, 64);
  tile_shape tile{rows, streams};
  if (rows > most) // split evenly, in whole pairs of tiles
    tile.rows = ceil_div(ceil_div(rows, ceil_div(rows, most)), 32) * 32;
  if (rows > 16) // a power of two, so that halves hold whole pairs of gate and up
    while (tile.panels < tile_panels && 2 * tile.panels * tile.rows * panel_columns <= tile_floats)
      tile.panels *= 2;
  return tile;
}

} // namespace

row_map::row_map(const kernel_table& table, const packed_matrix& weight, std::size_t rows)
    : layout_(layout_for(table, weight, rows)),
      stride_(layout_ == row_layout::bf16_tiles ? ceil_div(weight.inputs(), block_k) * block_bytes
                                                : product_stride(weight.inputs()) * sizeof(float)) {}

std::size_t row_map::bytes(std::size_t rows) const {
  return layout_ == row_layout::bf16_tiles ? ceil_div(rows, 16) * stride_ : rows * stride_;
}

tile_shape tiles_for(const kernel_table& table, const packed_matrix& weight, std::size_t rows,
                     unsigned threads) {
  const packed_shape& shape = weight.shape();
  tile_shape tile{std::min(rows, many_rows), rows <= direct_rows ? streams : many_panels};
  if (layout_for(table, weight, rows) == row_layout::bf16_tiles)
    tile = matrix_unit_tile(shape, rows);
  else if (rows > many_rows) // rows split evenly
    tile.rows = ceil_div(rows, ceil_div(rows, many_rows));
  const auto tiles = [&] { return ceil_div(rows, tile.rows) * ceil_div(shape.panels(), tile.panels); };
  while (rows > 0 && tile.panels > shape.interleave && tiles() < std::size_t{4} * threads)
    tile.panels /= 2;
  return tile;
}

std::size_t tile_scratch_bytes(const tile_shape& tile) {
  return unpacked_bytes + ceil_div(tile.rows, 16) * 16 * tile.panels * panel_columns * sizeof(float);
}

void pack_row(const kernel_table& table, row_layout layout, const std::byte* row, dtype type, std::size_t k,
              std::byte* out) {
  switch (layout) {
  case row_layout::f32:
    table.pack_row_f32(row, type, k, reinterpret_cast<float*>(out));
    break;
  case row_layout::bf16_split:
    table.pack_row_bf16(row, type, k, reinterpret_cast<float*>(out));
    break;
  case row_layout::bf16_tiles:
    table.pack_row_tiles(row, type, k, out);
    break;
  case row_layout::int8:
    table.quant.quantize_row(row, type, k, out);
    break;
  }
}

tile_sums multiply_tile(const kernel_table& table, const packed_matrix& weight, row_layout layout,
                        const std::byte* a, std::size_t rows, std::size_t first_panel, std::size_t panels,
                        std::byte* scratch) {
  auto* expanded = reinterpret_cast<float*>(scratch);
  auto* c = reinterpret_cast<float*>(scratch + unpacked_bytes);
  if (layout == row_layout::bf16_tiles) {
    const packed_shape& shape = weight.shape();
    const std::size_t c_stride = ceil_div(rows, 16) * 16 * panel_columns;
    if (is_quantized(shape.format)) {
      multiply_quantized_tiles(table, weight, a, rows, first_panel, panels, c, c_stride, scratch,
                               unpacked_bytes);
      return {c, c_stride};
    }
    table.bf16_tiles({.a = a,
                      .a_stride = shape.padded_inputs() / block_k * block_bytes,
                      .rows = rows,
                      .panel = weight.panel(first_panel),
                      .panel_stride = shape.panel_bytes(),
                      .panels = panels,
                      .blocks = shape.padded_inputs() / block_k,
                      .c = c,
                      .c_stride = c_stride});
    return {c, c_stride};
  }
  const auto* x = reinterpret_cast<const float*>(a);
  std::memset(c, 0, rows * panels * panel_columns * sizeof(float));
  if (weight.format() == packed_format::f32_panel)
    multiply_f32(table, weight, x, rows, first_panel, panels, c);
  else if (is_quantized(weight.format()))
    multiply_quantized(table, weight, x, rows, first_panel, panels, c, expanded, chunk_blocks);
  else
    multiply_bf16(table, weight, x, rows, first_panel, panels, c, expanded);
  return {c, rows * panel_columns};
}

} // namespace troupe::kernels::cpu
