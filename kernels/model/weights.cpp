#include "kernels/model/weights.hpp"

#include "kernels/bfloat16.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <limits>

namespace troupe::model {

namespace {

template <class T>
T load_at(const std::byte* data, std::size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

std::size_t rows_of_shape(const tensor_ref& tensor) {
  return tensor.shape.size() < 2 ? 1 : tensor.shape.front();
}

std::size_t columns_of_shape(const tensor_ref& tensor) {
  return tensor.shape.empty() ? 1 : tensor.shape.back();
}

/// Copies the values of a tensor that is not dense, row by row: in tiles, since columns may lie far apart.
template <class Bits>
void gather(const tensor_ref& tensor, std::byte* out) {
  constexpr std::size_t tile = 16;
  const auto rows = rows_of_shape(tensor);
  const auto columns = columns_of_shape(tensor);
  for (std::size_t first_row = 0; first_row < rows; first_row += tile)
    for (std::size_t first_column = 0; first_column < columns; first_column += tile)
      for (auto c = first_column; c < std::min(first_column + tile, columns); ++c)
        for (auto r = first_row; r < std::min(first_row + tile, rows); ++r)
          std::memcpy(out + (r * columns + c) * sizeof(Bits),
                      tensor.data + (r * tensor.row_step + c * tensor.column_step) * sizeof(Bits),
                      sizeof(Bits));
}

/// The values of a tensor that is not dense.
kernels::buffer gathered(const tensor_ref& tensor) {
  const auto bytes = element_bytes(tensor.type);
  kernels::buffer result(rows_of_shape(tensor) * columns_of_shape(tensor) * bytes);
  if (bytes == sizeof(std::uint16_t))
    gather<std::uint16_t>(tensor, result.data());
  else
    gather<std::uint32_t>(tensor, result.data());
  return result;
}

/// A dense tensor with the values of `values`.
tensor_ref dense_ref(const tensor_ref& tensor, const kernels::buffer& values) {
  return {tensor.type, tensor.shape, values.data(),
          rows_of_shape(tensor) * columns_of_shape(tensor) * element_bytes(tensor.type)};
}

/// Copies values into floats; `out` has room for all of them.
void copy_floats(const tensor_ref& tensor, float* out) {
  if (!tensor.is_dense()) {
    const auto values = gathered(tensor);
    copy_floats(dense_ref(tensor, values), out);
    return;
  }
  const auto count = tensor.num_bytes / element_bytes(tensor.type);
  switch (tensor.type) {
  case storage_dtype::float32:
    std::memcpy(out, tensor.data, tensor.num_bytes);
    return;
  case storage_dtype::float16:
    for (std::size_t i = 0; i < count; ++i)
      out[i] = kernels::half_to_float(load_at<std::uint16_t>(tensor.data, i));
    return;
  case storage_dtype::bfloat16:
    for (std::size_t i = 0; i < count; ++i)
      out[i] = kernels::to_float(kernels::bfloat16{load_at<std::uint16_t>(tensor.data, i)});
    return;
  case storage_dtype::other: // refused by checkpoint::match
    return;
  }
}

/// The first value whose bits without the sign are at least `least`.
template <class Bits>
std::optional<std::size_t> first_from(const tensor_ref& tensor, Bits least) {
  constexpr Bits without_sign = std::numeric_limits<Bits>::max();
  constexpr std::size_t block = 64; // of a fixed size, so that compilers vectorise it
  const auto count = tensor.num_bytes / sizeof(Bits);
  std::size_t i = 0;
  for (; i + block <= count; i += block) {
    Bits values[block];
    std::memcpy(values, tensor.data + i * sizeof(Bits), sizeof values);
    Bits found = 0;
    for (const Bits value : values)
      found = static_cast<Bits>(found | static_cast<Bits>((value & without_sign) >= least));
    if (found != 0)
      break;
  }
  for (; i < count; ++i)
    if ((load_at<Bits>(tensor.data, i) & without_sign) >= least)
      return i;
  return std::nullopt;
}

} // namespace

kernels::dtype to_dtype(storage_dtype type) noexcept {
  switch (type) {
  case storage_dtype::float32:
    return kernels::dtype::f32;
  case storage_dtype::float16:
    return kernels::dtype::f16;
  case storage_dtype::bfloat16:
    return kernels::dtype::bf16;
  case storage_dtype::other: // refused by checkpoint::match
    break;
  }
  return kernels::dtype::f32;
}

weight_rows::weight_rows(const tensor_ref& tensor) {
  const auto* data = tensor.data;
  if (!tensor.is_dense()) {
    copy_ = gathered(tensor);
    data = copy_.data();
  }
  // Only the usual writer of the format guarantees alignment.
  if (reinterpret_cast<std::uintptr_t>(data) % element_bytes(tensor.type) != 0) {
    copy_ = kernels::buffer(tensor.num_bytes);
    std::memcpy(copy_.data(), data, tensor.num_bytes);
    data = copy_.data();
  }
  const auto cols = columns_of_shape(tensor);
  view_ = {data, to_dtype(tensor.type), rows_of_shape(tensor), cols, cols};
}

std::vector<float> to_floats(const tensor_ref& tensor) {
  std::vector<float> result(tensor.is_dense() ? tensor.num_bytes / element_bytes(tensor.type)
                                              : rows_of_shape(tensor) * columns_of_shape(tensor));
  copy_floats(tensor, result.data());
  return result;
}

std::optional<std::size_t> first_not_finite(const tensor_ref& tensor, kernels::dtype type) {
  if (!tensor.is_dense()) {
    // All that lies between its values is usually finite, too.
    if (!first_not_finite({tensor.type, {}, tensor.data, tensor.num_bytes}, type))
      return std::nullopt;
    const auto values = gathered(tensor);
    return first_not_finite(dense_ref(tensor, values), type);
  }
  switch (tensor.type) {
  case storage_dtype::float32:
    // From half way between the largest BF16 number and the next power of two, BF16 rounds to infinity.
    return first_from<std::int32_t>(tensor, type == kernels::dtype::bf16 ? 0x7f7f8000 : 0x7f800000);
  case storage_dtype::float16:
    return first_from<std::int16_t>(tensor, 0x7c00);
  case storage_dtype::bfloat16:
    return first_from<std::int16_t>(tensor, 0x7f80);
  case storage_dtype::other: // refused by checkpoint::match
    break;
  }
  return std::nullopt;
}

kernels::packed_matrix pack_rows(kernels::packed_format format, std::span<const tensor_ref> parts,
                                 kernels::isa set) {
  if (parts.size() == 1)
    return kernels::packed_matrix::pack(format, weight_rows(parts.front()).view(), set);
  // Through floats, which hold every storage type exactly, because parts may have different types.
  std::size_t rows = 0;
  for (const auto& part : parts)
    rows += part.shape.front();
  const auto cols = parts.front().shape.back();
  kernels::buffer joined(rows * cols * sizeof(float));
  auto* out = reinterpret_cast<float*>(joined.data());
  for (const auto& part : parts) {
    copy_floats(part, out);
    out += part.shape.front() * cols;
  }
  return kernels::packed_matrix::pack(
      format, kernels::view_of(reinterpret_cast<const float*>(joined.data()), rows, cols), set);
}

kernels::expert_weights pack_mlp(kernels::packed_format format, const tensor_ref& gate, const tensor_ref* up,
                                 const tensor_ref& down, kernels::isa set) {
  kernels::expert_weights result;
  result.gate_up = up == nullptr ? kernels::packed_matrix::pack(format, weight_rows(gate).view(), set)
                                 : kernels::packed_matrix::pack_gate_up(format, weight_rows(gate).view(),
                                                                        weight_rows(*up).view(), set);
  result.down = kernels::packed_matrix::pack(format, weight_rows(down).view(), set);
  for (const auto* tensor : {&gate, up, &down})
    if (tensor != nullptr)
      release_pages({tensor->data, tensor->num_bytes});
  return result;
}

} // namespace troupe::model
