#include "kernels/model/weights.hpp"

#include "kernels/bfloat16.hpp"

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

/// Copies values into floats; `out` has room for all of them.
void copy_floats(const tensor_ref& tensor, float* out) {
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
  constexpr std::size_t block = 64; // of a fixed size, so that it becomes vector instructions
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
  // The format does not promise alignment, only its usual writer does.
  if (reinterpret_cast<std::uintptr_t>(data) % element_bytes(tensor.type) != 0) {
    copy_ = kernels::buffer(tensor.num_bytes);
    std::memcpy(copy_.data(), data, tensor.num_bytes);
    data = copy_.data();
  }
  const auto cols = tensor.shape.empty() ? 1 : tensor.shape.back();
  const auto rows = tensor.shape.size() < 2 ? 1 : tensor.shape.front();
  view_ = {data, to_dtype(tensor.type), rows, cols, cols};
}

std::vector<float> to_floats(const tensor_ref& tensor) {
  std::vector<float> result(tensor.num_bytes / element_bytes(tensor.type));
  copy_floats(tensor, result.data());
  return result;
}

std::optional<std::size_t> first_not_finite(const tensor_ref& tensor, kernels::dtype type) {
  switch (tensor.type) {
  case storage_dtype::float32:
    // From half way between the largest BF16 number and the next power of two on, BF16 has infinity.
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
  // Through floats, which hold every storage type exactly, so that parts may differ in theirs.
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

kernels::expert_weights pack_mlp(kernels::packed_format format, const tensor_ref& gate, const tensor_ref& up,
                                 const tensor_ref& down, kernels::isa set) {
  kernels::expert_weights result;
  result.gate_up =
      kernels::packed_matrix::pack_gate_up(format, weight_rows(gate).view(), weight_rows(up).view(), set);
  result.down = kernels::packed_matrix::pack(format, weight_rows(down).view(), set);
  for (const auto& tensor : {gate, up, down})
    release_pages({tensor.data, tensor.num_bytes});
  return result;
}

} // namespace troupe::model
