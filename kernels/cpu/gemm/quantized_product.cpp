#include "kernels/cpu/gemm/quantized_product.hpp"

#include <algorithm>

namespace troupe::kernels::cpu {

namespace {

// Panels that a matrix unit multiplies with a tile of rows at a time.
constexpr std::size_t unpacked_panels = 4;

// Panels that dot products use at a time: 16 KiB of each are unpacked.
constexpr std::size_t unpacked_dot_panels = 2;

// With too few panels for runs, any kernel for the same rows.
integer_product* integer_product_of(const quant_table& quant, product_kernel kernel) {
  switch (kernel) {
  case product_kernel::integers_streams:
    return quant.integer_streams;
  case product_kernel::integers_groups:
    return quant.integer_groups;
  case product_kernel::integers_one_stream:
    return quant.integer_one_stream;
  case product_kernel::integers_unpacked:
    return quant.integer_unpacked;
  case product_kernel::integers_row_tiles:
    return quant.integer_row_tiles;
  default:
    return quant.integer;
  }
}

} // namespace

quant_panel panel_of(const packed_matrix& weight, std::size_t index) {
  const packed_shape& shape = weight.shape();
  const std::byte* data = weight.panel(index);
  return {shape.format, data, shape.int4(),
          reinterpret_cast<const float*>(data + shape.panel_scales_offset()), shape.panel_bytes()};
}

void multiply_quantized(const kernel_table& table, const product_regime& regime, const panel_range& range,
                        const float* a, std::size_t a_stride, std::size_t rows, float* c, float* expanded,
                        const upcoming_panels& next) {
  const packed_matrix& weight = *range.weight;
  const std::size_t first_panel = range.first;
  const std::size_t panels = range.count;
  const quant_table& quant = table.quant;
  const auto sums = [&](std::size_t p) { return c + p * rows * panel_columns; };
  if (weight.rows() == row_quant::int8) {
    const auto* x = reinterpret_cast<const std::byte*>(a);
    const quant_panel first = panel_of(weight, first_panel);
    if (range.runs > 1)
      quant.integer_runs(x, a_stride * sizeof(float), rows, first, panels, range.stride * first.stride, next,
                         weight.inputs(), c);
    else
      integer_product_of(quant, regime.kernel)(x, a_stride * sizeof(float), rows, first, panels, next,
                                               weight.inputs(), c);
    return;
  }
  const std::size_t blocks = (weight.inputs() + block_k - 1) / block_k;
  const std::size_t step = regime.turn_inputs / block_k;
  if (regime.kernel == product_kernel::fma) {
    for (std::size_t b = 0; b < blocks; b += step)
      for (std::size_t p = 0; p < panels; ++p)
        quant.direct(a + b * block_k, a_stride, rows, panel_of(weight, first_panel + p), b,
                     std::min(step, blocks - b), sums(p), panel_columns);
  } else {
    for (std::size_t b = 0; b < blocks; b += step) {
      const std::size_t count = std::min(step, blocks - b);
      for (std::size_t p = 0; p < panels; ++p) {
        quant.expand(panel_of(weight, first_panel + p), b, count, expanded);
        table.bf16_expanded(a + b * block_k, a_stride, rows, expanded, count, sums(p), panel_columns);
      }
    }
  }
  for (std::size_t p = 0; p < panels; ++p)
    quant.scale(panel_of(weight, first_panel + p), rows, sums(p));
}

void multiply_unpacked_tiles(const kernel_table& table, const packed_matrix& weight, const std::byte* a,
                             std::size_t rows, std::size_t first_panel, std::size_t panels, float* c,
                             std::size_t c_stride, std::byte* unpacked, std::size_t unpacked_bytes) {
  const std::size_t blocks = (weight.inputs() + block_k - 1) / block_k;
  const std::size_t step = unpacked_bytes / (unpacked_panels * pair_block_bytes);
  for (std::size_t first = 0; first < panels; first += unpacked_panels) {
    const std::size_t panel_count = std::min(unpacked_panels, panels - first);
    for (std::size_t b = 0; b < blocks; b += step) {
      const std::size_t count = std::min(step, blocks - b);
      for (std::size_t p = 0; p < panel_count; ++p)
        table.quant.pairs(panel_of(weight, first_panel + first + p), b, count,
                          unpacked + p * count * pair_block_bytes);
      table.bf16_tiles({.a = a + b * pair_block_bytes,
                        .a_stride = blocks * pair_block_bytes,
                        .rows = rows,
                        .panel = unpacked,
                        .panel_stride = count * pair_block_bytes,
                        .panels = panel_count,
                        .blocks = count,
                        .c = c + first * c_stride,
                        .c_stride = c_stride,
                        .accumulate = b != 0,
                        .streamed = false});
    }
  }
  for (std::size_t p = 0; p < panels; ++p)
    table.quant.scale(panel_of(weight, first_panel + p), rows, c + p * c_stride);
}

void multiply_quantized_dots(const kernel_table& table, const panel_range& range, const bfloat16* a,
                             std::size_t a_stride, std::size_t rows, float* c, std::byte* unpacked,
                             std::size_t unpacked_bytes) {
  const packed_matrix& weight = *range.weight;
  const std::size_t blocks = (weight.inputs() + block_k - 1) / block_k;
  const std::size_t step = unpacked_bytes / (unpacked_dot_panels * pair_block_bytes);
  for (std::size_t first = 0; first < range.count; first += unpacked_dot_panels) {
    const std::size_t panels = std::min(unpacked_dot_panels, range.count - first);
    float* sums = c + first * rows * panel_columns;
    for (std::size_t b = 0; b < blocks; b += step) {
      const std::size_t count = std::min(step, blocks - b);
      for (std::size_t p = 0; p < panels; ++p)
        table.quant.pairs(panel_of(weight, range.first + first + p), b, count,
                          unpacked + p * count * pair_block_bytes);
      table.bf16_dots({.a = a + b * block_k,
                       .a_stride = a_stride,
                       .rows = rows,
                       .panel = unpacked,
                       .panel_stride = count * pair_block_bytes,
                       .panels = panels,
                       .blocks = count,
                       .c = sums});
    }
    for (std::size_t p = 0; p < panels; ++p)
      table.quant.scale(panel_of(weight, range.first + first + p), rows, sums + p * rows * panel_columns);
  }
}

} // namespace troupe::kernels::cpu
