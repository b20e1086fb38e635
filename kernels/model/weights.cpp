#include "kernels/model/weights.hpp"

#include "kernels/bfloat16.hpp"

#include <bit>
#include <cstring>

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
