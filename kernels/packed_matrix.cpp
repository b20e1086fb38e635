#include "kernels/packed_matrix.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t block_k = 32;

float as_float(const_tensor_view weight, std::size_t row, std::size_t column) {
  switch (weight.type) {
  case dtype::f32:
    return weight.row_as<float>(row)[column];
  case dtype::bf16:
    return to_float(weight.row_as<bfloat16>(row)[column]);
  default:
    return half_to_float(weight.row_as<std::uint16_t>(row)[column]);
  }
}

bfloat16 as_bfloat16(const_tensor_view weight, std::size_t row, std::size_t column) {
  if (weight.type == dtype::bf16)
    return weight.row_as<bfloat16>(row)[column];
  return to_bfloat16(as_float(weight, row, column));
}

void check(const packed_shape& shape, const_tensor_view weight) {
  if (shape.format != packed_format::f32_panel && shape.format != packed_format::bf16_pair)
    throw kernel_error("packing weights: this packed format cannot be made from plain weights");
  if (weight.type != dtype::f32 && weight.type != dtype::bf16 && weight.type != dtype::f16)
    throw kernel_error(std::string("packing weights: type ") + name_of(weight.type)
                       + " is not f32, bf16 or f16");
  if (weight.rows != shape.outputs || weight.cols != shape.inputs)
    throw kernel_error("packing weights: shape [" + std::to_string(weight.rows) + ", "
                       + std::to_string(weight.cols) + "] where [" + std::to_string(shape.outputs) + ", "
                       + std::to_string(shape.inputs) + "] is expected");
}

// One panel: columns are weight rows first … first + columns.
void pack_panel_bf16(const_tensor_view weight, std::size_t first, std::size_t columns, bfloat16* out) {
  for (std::size_t column = 0; column < columns; ++column)
    for (std::size_t k = 0; k < weight.cols; ++k)
      out[(k / 2 * panel_columns + column) * 2 + k % 2] = as_bfloat16(weight, first + column, k);
}

void pack_panel_f32(const_tensor_view weight, std::size_t first, std::size_t columns, float* out) {
  for (std::size_t column = 0; column < columns; ++column)
    for (std::size_t k = 0; k < weight.cols; ++k)
      out[k * panel_columns + column] = as_float(weight, first + column, k);
}

} // namespace

std::size_t packed_shape::padded_inputs() const {
  return format == packed_format::f32_panel ? inputs : (inputs + block_k - 1) / block_k * block_k;
}

std::size_t packed_shape::panels() const {
  return (outputs + panel_columns - 1) / panel_columns * interleave;
}

std::size_t packed_shape::panel_bytes() const {
  return padded_inputs() * panel_columns * (format == packed_format::f32_panel ? 4 : 2);
}

std::size_t packed_shape::bytes() const {
  return panels() * panel_bytes();
}

packed_format format_for(dtype activation) {
  return activation == dtype::f32 ? packed_format::f32_panel : packed_format::bf16_pair;
}

void packed_matrix::pack_into(const packed_shape& shape, std::span<const const_tensor_view> parts,
                              std::span<std::byte> out) {
  if (parts.size() != shape.interleave || out.size() != shape.bytes())
    throw kernel_error("packing weights: wrong number of parts or bytes");
  for (const auto& part : parts)
    check(shape, part);
  std::memset(out.data(), 0, out.size());
  for (std::size_t panel = 0; panel < shape.panels(); ++panel) {
    const const_tensor_view& weight = parts[panel % shape.interleave];
    const std::size_t first = panel / shape.interleave * panel_columns;
    const std::size_t columns = std::min(panel_columns, shape.outputs - first);
    std::byte* to = out.data() + panel * shape.panel_bytes();
    if (shape.format == packed_format::f32_panel)
      pack_panel_f32(weight, first, columns, reinterpret_cast<float*>(to));
    else
      pack_panel_bf16(weight, first, columns, reinterpret_cast<bfloat16*>(to));
  }
}

packed_matrix packed_matrix::pack(packed_format format, const_tensor_view weight) {
  packed_matrix result;
  result.shape_ = {format, weight.rows, weight.cols, 1};
  check(result.shape_, weight);
  result.storage_ = buffer(result.shape_.bytes());
  result.data_ = result.storage_.data();
  pack_into(result.shape_, {&weight, 1}, result.storage_.bytes());
  return result;
}

packed_matrix packed_matrix::pack_gate_up(packed_format format, const_tensor_view gate,
                                          const_tensor_view up) {
  packed_matrix result;
  result.shape_ = {format, gate.rows, gate.cols, 2};
  check(result.shape_, gate);
  check(result.shape_, up);
  result.storage_ = buffer(result.shape_.bytes());
  result.data_ = result.storage_.data();
  const const_tensor_view parts[] = {gate, up};
  pack_into(result.shape_, parts, result.storage_.bytes());
  return result;
}

packed_matrix packed_matrix::view(const packed_shape& shape, std::span<const std::byte> bytes) {
  if (bytes.size() != shape.bytes())
    throw kernel_error("packed weights: " + std::to_string(bytes.size()) + " bytes where "
                       + std::to_string(shape.bytes()) + " are expected");
  if (reinterpret_cast<std::uintptr_t>(bytes.data()) % 64 != 0)
    throw kernel_error("packed weights: memory is not 64-byte aligned");
  packed_matrix result;
  result.shape_ = shape;
  result.data_ = bytes.data();
  return result;
}

void packed_matrix::unpack_row(std::size_t output, std::span<float> out, std::size_t part) const {
  const std::byte* from = panel(output / panel_columns * shape_.interleave + part);
  const std::size_t column = output % panel_columns;
  for (std::size_t k = 0; k < shape_.inputs; ++k)
    if (shape_.format == packed_format::f32_panel)
      out[k] = reinterpret_cast<const float*>(from)[k * panel_columns + column];
    else
      out[k] =
          to_float(reinterpret_cast<const bfloat16*>(from)[(k / 2 * panel_columns + column) * 2 + k % 2]);
}

} // namespace troupe::kernels
