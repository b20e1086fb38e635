#include "kernels/cpu/gemm/row_map.hpp"

namespace troupe::kernels::cpu {

std::size_t row_stride_of(row_layout layout, std::size_t inputs) {
  switch (layout) {
  case row_layout::bf16_tiles:
    return (inputs + 31) / 32 * 16 * 32 * sizeof(bfloat16);
  case row_layout::int8_tiles:
    return int8_row_sums(inputs) * 16 + 16 * sizeof(float);
  case row_layout::int8:
    return int8_row_stride(inputs);
  case row_layout::bf16_dots:
    return dot_stride(inputs) * sizeof(bfloat16);
  default:
    return product_stride(inputs) * sizeof(float);
  }
}

row_map::row_map(const product_regime& regime, const packed_matrix& weight)
    : layout_(layout_of(regime.kernel, kind_of(weight.format(), weight.rows()))),
      inputs_(weight.inputs()),
      stride_(row_stride_of(layout_, inputs_)) {}

std::size_t row_map::bytes(std::size_t rows) const {
  return in_tiles() ? (rows + 15) / 16 * stride_ : rows * stride_;
}

void row_map::pack(const kernel_table& table, const std::byte* row, dtype type, std::byte* rows,
                   std::size_t r) const {
  std::byte* out = rows + offset(r);
  switch (layout_) {
  case row_layout::f32:
    table.pack_row_f32(row, type, inputs_, reinterpret_cast<float*>(out));
    break;
  case row_layout::bf16_split:
    table.pack_row_bf16(row, type, inputs_, reinterpret_cast<float*>(out));
    break;
  case row_layout::bf16_dots:
    table.pack_row_dots(row, type, inputs_, reinterpret_cast<bfloat16*>(out));
    break;
  case row_layout::bf16_tiles:
    table.pack_row_tiles(row, type, inputs_, out);
    break;
  case row_layout::int8:
    table.quant.quantize_row(row, type, inputs_, out);
    break;
  case row_layout::int8_tiles: {
    std::byte* scales = rows + r / 16 * stride_ + int8_row_sums(inputs_) * 16;
    table.quantize_row_tiles(row, type, inputs_, out, reinterpret_cast<float*>(scales) + r % 16);
    break;
  }
  case row_layout::bf16:
    break; // not a row of a product
  }
}

} // namespace troupe::kernels::cpu
