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

constexpr std::size_t many_rows = 192; // × 256 of K × 4 bytes = 192 KiB of L2
constexpr std::size_t many_panels = 8;
constexpr std::size_t streams = 4;

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

} // namespace

tile_shape tiles_for(const packed_shape& weight, std::size_t rows, unsigned threads) {
  tile_shape tile{std::min(rows, many_rows), rows <= direct_rows ? streams : many_panels};
  if (rows > many_rows) // rows split evenly
    tile.rows = (rows + (rows + many_rows - 1) / many_rows - 1) / ((rows + many_rows - 1) / many_rows);
  const auto tiles = [&] {
    return (rows + tile.rows - 1) / tile.rows * ((weight.panels() + tile.panels - 1) / tile.panels);
  };
  while (rows > 0 && tile.panels > weight.interleave && tiles() < std::size_t{4} * threads)
    tile.panels /= 2;
  return tile;
}

std::size_t tile_scratch_bytes(const tile_shape& tile) {
  return (tile.rows * tile.panels + chunk_k) * panel_columns * sizeof(float);
}

void pack_row(const kernel_table& table, const packed_matrix& weight, const std::byte* row, dtype type,
              std::size_t k, float* out) {
  if (weight.rows() == row_quant::int8)
    table.quant.quantize_row(row, type, k, reinterpret_cast<std::byte*>(out));
  else if (weight.format() == packed_format::f32_panel)
    table.pack_row_f32(row, type, k, out);
  else
    table.pack_row_bf16(row, type, k, out);
}

float* multiply_tile(const kernel_table& table, const packed_matrix& weight, const float* a, std::size_t rows,
                     std::size_t first_panel, std::size_t panels, std::byte* scratch) {
  auto* expanded = reinterpret_cast<float*>(scratch);
  float* c = expanded + chunk_k * panel_columns;
  std::memset(c, 0, rows * panels * panel_columns * sizeof(float));
  if (weight.format() == packed_format::f32_panel)
    multiply_f32(table, weight, a, rows, first_panel, panels, c);
  else if (is_quantized(weight.format()))
    multiply_quantized(table, weight, a, rows, first_panel, panels, c, expanded, chunk_blocks);
  else
    multiply_bf16(table, weight, a, rows, first_panel, panels, c, expanded);
  return c;
}

} // namespace troupe::kernels::cpu
