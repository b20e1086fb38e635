#include "kernels/packed_matrix.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "kernels/coded_bf16.hpp"
#include "kernels/error.hpp"
#include "kernels/quantize.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t quantized_block_k = 64; // an int8 tile of AMX

// Reads a row of weights as FP32, which holds every type exactly.
void read_row(const_tensor_view weight, std::size_t row, float* out) {
  switch (weight.type) {
  case dtype::f32:
    std::copy_n(weight.row_as<float>(row), weight.cols, out);
    return;
  case dtype::bf16:
    std::transform(weight.row_as<bfloat16>(row), weight.row_as<bfloat16>(row) + weight.cols, out, to_float);
    return;
  default:
    std::transform(weight.row_as<std::uint16_t>(row), weight.row_as<std::uint16_t>(row) + weight.cols, out,
                   half_to_float);
  }
}

void check(const packed_shape& shape, const_tensor_view weight) {
  if (weight.type != dtype::f32 && weight.type != dtype::bf16 && weight.type != dtype::f16)
    throw kernel_error(std::string("packing weights: type ") + name_of(weight.type)
                       + " is not f32, bf16 or f16");
  if (weight.rows != shape.outputs || weight.cols != shape.inputs)
    throw kernel_error("packing weights: shape [" + std::to_string(weight.rows) + ", "
                       + std::to_string(weight.cols) + "] where [" + std::to_string(shape.outputs) + ", "
                       + std::to_string(shape.inputs) + "] is expected");
}

// Packs one panel: its columns are the weight rows first … first + columns. A lane of 4 bytes holds 2 k
// (BF16), 4 k (int8) or 8 k (int4: k to k + 3 in the lower halves, k + 4 to k + 7 in the upper ones) of a
// column.

void pack_panel_bf16(const_tensor_view weight, std::size_t first, std::size_t columns, bfloat16* out) {
  std::vector<float> values(weight.type == dtype::bf16 ? 0 : weight.cols);
  std::vector<bfloat16> row(weight.cols + 1); // an odd row ends with a zero
  for (std::size_t column = 0; column < columns; ++column) {
    if (weight.type == dtype::bf16) {
      std::copy_n(weight.row_as<bfloat16>(first + column), weight.cols, row.data());
    } else {
      read_row(weight, first + column, values.data());
      std::transform(values.begin(), values.end(), row.begin(), to_bfloat16);
    }
    for (std::size_t k = 0; k < weight.cols; k += 2)
      std::copy_n(row.data() + k, 2, out + k * panel_columns + column * 2);
  }
}

void pack_panel_f32(const_tensor_view weight, std::size_t first, std::size_t columns, float* out) {
  std::vector<float> row(weight.cols);
  for (std::size_t column = 0; column < columns; ++column) {
    read_row(weight, first + column, row.data());
    for (std::size_t k = 0; k < weight.cols; ++k)
      out[k * panel_columns + column] = row[k];
  }
}

std::size_t int8_index(std::size_t k, std::size_t column) {
  return (k / 4 * panel_columns + column) * 4 + k % 4;
}

// Byte with the pair (k, k + 4) that contains k.
std::size_t int4_index(const int4_layout& layout, std::size_t k, std::size_t column) {
  return layout.block_offset(k / block_k) + (k % block_k / 8 * panel_columns + column) * 4 + k % 4;
}

bool in_high_half(std::size_t k) {
  return k % 8 >= 4;
}

// A lane of int4: half bytes are q + 8.
std::uint32_t int4_lane(const std::int8_t* q) {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  std::memcpy(&low, q, sizeof low);
  std::memcpy(&high, q + 4, sizeof high);
  // Adding 8 to a half byte flips its highest bit.
  return ((low & 0x0f0f0f0fU) | (high & 0x0f0f0f0fU) << 4) ^ 0x88888888U;
}

void pack_panel_quantized(const packed_shape& shape, const_tensor_view weight, std::size_t first,
                          std::size_t columns, isa set, std::byte* out) {
  const bool int8 = shape.format == packed_format::int8_channel;
  const int4_layout layout = shape.int4();
  if (!int8) // a zero is stored as 8, but scales are 0
    for (std::size_t b = 0; b < shape.padded_inputs() / block_k; ++b)
      std::memset(out + layout.block_offset(b), 0x88, int4_block_bytes);
  std::vector<float> row(weight.cols);
  std::vector<std::int8_t> q(shape.padded_inputs());
  std::vector<std::int8_t> group_scales(shape.group() == 0 ? 0 : shape.padded_inputs() / shape.group());
  auto* scales = reinterpret_cast<float*>(out + shape.panel_scales_offset());
  for (std::size_t column = 0; column < columns; ++column) {
    read_row(weight, first + column, row.data());
    for (std::size_t k = 0; k < weight.cols; ++k)
      if (!std::isfinite(row[k]))
        throw kernel_error("quantizing weights: row " + std::to_string(first + column) + ", column "
                           + std::to_string(k) + " is not a finite number");
    if (int8)
      scales[column] = quantize_int8(row, q.data());
    else if (shape.group() == 0)
      scales[column] = quantize_int4(row, q.data(), set);
    else
      scales[column] = quantize_int4_groups(row, shape.group(), q.data(), group_scales.data(), set);
    if (int8) {
      for (std::size_t k = 0; k < q.size(); k += 4)
        std::memcpy(out + int8_index(k, column), q.data() + k, 4);
      continue;
    }
    for (std::size_t k = 0; k < q.size(); k += 8) {
      const std::uint32_t values = int4_lane(q.data() + k);
      std::memcpy(out + int4_index(layout, k, column), &values, sizeof values);
    }
    for (std::size_t g = 0; g < group_scales.size(); ++g)
      out[layout.scales_offset(g * layout.group_blocks) + column] = static_cast<std::byte>(group_scales[g]);
  }
}

} // namespace

const char* name_of(packed_format format) {
  switch (format) {
  case packed_format::f32_panel:
    return "f32-panel";
  case packed_format::bf16_pair:
    return "bf16-pair";
  case packed_format::int8_channel:
    return "int8-channel";
  case packed_format::int4_channel:
    return "int4-channel";
  case packed_format::int4_group32:
    return "int4-group32";
  case packed_format::int4_group64:
    return "int4-group64";
  case packed_format::bf16_coded:
    return "bf16-coded";
  }
  return "?";
}

std::size_t packed_shape::padded_inputs() const {
  // A power of two: every product computes this, and a division takes as long as a small product.
  const std::size_t unit = is_quantized(format)                 ? quantized_block_k
                           : format == packed_format::f32_panel ? 1
                                                                : block_k;
  return (inputs + unit - 1) & ~(unit - 1);
}

std::size_t packed_shape::group() const {
  return format == packed_format::int4_group32 ? 32 : format == packed_format::int4_group64 ? 64 : 0;
}

std::size_t packed_shape::panel_weight_bytes() const {
  const std::size_t values = padded_inputs() * panel_columns;
  switch (format) {
  case packed_format::f32_panel:
    return values * 4;
  case packed_format::bf16_pair:
    return values * 2;
  case packed_format::int8_channel:
    return values;
  case packed_format::bf16_coded:
    return coded_panel_bytes(padded_inputs() / block_k);
  default:
    return int4().bytes(padded_inputs() / block_k);
  }
}

std::size_t packed_shape::panels() const {
  return (outputs + panel_columns - 1) / panel_columns * interleave;
}

std::size_t packed_shape::panel_bytes() const {
  return panel_weight_bytes() + (is_quantized(format) ? panel_columns * sizeof(float) : 0);
}

std::size_t packed_shape::bytes() const {
  return panels() * panel_bytes();
}

packed_format format_for(dtype activation) {
  return activation == dtype::f32 ? packed_format::f32_panel : packed_format::bf16_pair;
}

void packed_matrix::pack_into(const packed_shape& shape, std::span<const const_tensor_view> parts,
                              std::span<std::byte> out, isa set) {
  if (parts.size() != shape.interleave || out.size() != shape.bytes())
    throw kernel_error("packing weights: wrong number of parts or bytes");
  if (shape.format == packed_format::bf16_coded)
    throw kernel_error("packing weights: only packed BF16 weights can be coded");
  for (const auto& part : parts)
    check(shape, part);
  std::memset(out.data(), 0, out.size());
  for (std::size_t panel = 0; panel < shape.panels(); ++panel) {
    const const_tensor_view& weight = parts[panel % shape.interleave];
    const std::size_t first = panel / shape.interleave * panel_columns;
    const std::size_t columns = std::min(panel_columns, shape.outputs - first);
    std::byte* to = out.data() + panel * shape.panel_bytes();
    if (is_quantized(shape.format))
      pack_panel_quantized(shape, weight, first, columns, set, to);
    else if (shape.format == packed_format::f32_panel)
      pack_panel_f32(weight, first, columns, reinterpret_cast<float*>(to));
    else
      pack_panel_bf16(weight, first, columns, reinterpret_cast<bfloat16*>(to));
  }
}

packed_matrix packed_matrix::pack(packed_format format, const_tensor_view weight, isa set) {
  packed_matrix result;
  result.shape_ = {format, weight.rows, weight.cols, 1};
  check(result.shape_, weight);
  result.storage_ = buffer(result.shape_.bytes());
  result.data_ = result.storage_.data();
  pack_into(result.shape_, {&weight, 1}, result.storage_.bytes(), set);
  return result;
}

packed_matrix packed_matrix::pack_gate_up(packed_format format, const_tensor_view gate, const_tensor_view up,
                                          isa set) {
  packed_matrix result;
  result.shape_ = {format, gate.rows, gate.cols, 2};
  check(result.shape_, gate);
  check(result.shape_, up);
  result.storage_ = buffer(result.shape_.bytes());
  result.data_ = result.storage_.data();
  const const_tensor_view parts[] = {gate, up};
  pack_into(result.shape_, parts, result.storage_.bytes(), set);
  return result;
}

std::optional<packed_matrix> packed_matrix::code(const packed_matrix& plain) {
  expect(plain.format() == packed_format::bf16_pair, "coding weights: they are not bf16-pair");
  packed_matrix result;
  result.shape_ = plain.shape_;
  result.shape_.format = packed_format::bf16_coded;
  result.storage_ = buffer(result.shape_.bytes());
  result.data_ = result.storage_.data();
  const std::size_t blocks = plain.shape_.padded_inputs() / block_k;
  for (std::size_t panel = 0; panel < plain.shape_.panels(); ++panel)
    if (!code_panel(reinterpret_cast<const bfloat16*>(plain.panel(panel)), blocks,
                    result.storage_.data() + panel * result.shape_.panel_bytes()))
      return std::nullopt;
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

packed_matrix packed_matrix::copy(const packed_shape& shape, std::span<const std::byte> bytes) {
  packed_matrix result = view(shape, bytes);
  result.storage_ = buffer(bytes.size());
  std::memcpy(result.storage_.data(), bytes.data(), bytes.size());
  result.data_ = result.storage_.data();
  return result;
}

packed_matrix packed_matrix::own(const packed_shape& shape, buffer bytes) {
  packed_matrix result = view(shape, bytes.bytes());
  result.storage_ = std::move(bytes);
  return result;
}

void packed_matrix::unpack_row(std::size_t output, std::span<float> out, std::size_t part) const {
  const std::byte* from = panel(output / panel_columns * shape_.interleave + part);
  const std::size_t column = output % panel_columns;
  const auto at = [&](std::size_t k) {
    switch (shape_.format) {
    case packed_format::f32_panel:
      return reinterpret_cast<const float*>(from)[k * panel_columns + column];
    case packed_format::bf16_pair:
      return to_float(reinterpret_cast<const bfloat16*>(from)[(k / 2 * panel_columns + column) * 2 + k % 2]);
    case packed_format::bf16_coded:
      return to_float(decoded(from, shape_.padded_inputs() / block_k, k, column));
    default:
      break;
    }
    const float scale = reinterpret_cast<const float*>(from + shape_.panel_scales_offset())[column];
    if (shape_.format == packed_format::int8_channel)
      return static_cast<float>(static_cast<std::int8_t>(from[int8_index(k, column)])) * scale;
    const int4_layout layout = shape_.int4();
    const auto pair = std::to_integer<int>(from[int4_index(layout, k, column)]);
    int value = (in_high_half(k) ? pair >> 4 : pair & 0x0f) - 8;
    if (layout.has_groups())
      value *= static_cast<std::int8_t>(from[layout.scales_offset(k / block_k) + column]);
    return static_cast<float>(value) * scale;
  };
  for (std::size_t k = 0; k < shape_.inputs; ++k)
    out[k] = at(k);
}

} // namespace troupe::kernels
