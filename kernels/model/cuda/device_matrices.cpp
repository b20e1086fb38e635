#include "kernels/model/cuda/device_matrices.hpp"

#include "kernels/model/cuda/matrix_alignment.hpp"

namespace troupe::model {

namespace {

using kernels::cuda::weight_matrix;

std::size_t bytes_of_matrix(const kernels::cuda::weight_shape& shape, bool has_bias) {
  const auto scales = shape.format == kernels::cuda::weight_format::bf16 ? 0 : shape.outputs * sizeof(float);
  return aligned(shape.weight_bytes()) + aligned(shape.group_scale_words() * sizeof(std::uint32_t))
         + aligned(scales) + (has_bias ? aligned(shape.outputs * sizeof(float)) : 0);
}

} // namespace

std::size_t device_matrices::bytes_of(std::span<const kernels::cuda::weight_shape> shapes, bool have_bias) {
  std::size_t total = aligned(shapes.size() * sizeof(weight_matrix));
  for (const auto& shape : shapes)
    total += bytes_of_matrix(shape, have_bias);
  return total;
}

device_matrices::device_matrices(const kernels::cuda::stream& on, std::span<const matrix_image> images) {
  std::size_t total = aligned(images.size() * sizeof(weight_matrix));
  for (const auto& image : images)
    total += bytes_of_matrix(image.shape, !image.bias.empty());
  memory_ = kernels::cuda::device_memory(total);
  put(on, images, memory_.data());
}

device_matrices::device_matrices(const kernels::cuda::stream& on, std::span<const matrix_image> images,
                                 std::byte* to) {
  put(on, images, to);
}

void device_matrices::put(const kernels::cuda::stream& on, std::span<const matrix_image> images,
                          std::byte* to) {
  const auto next = [&]<class T>(const std::vector<T>& values) -> const T* {
    if (values.empty())
      return nullptr;
    auto* const at = to;
    const auto num_bytes = values.size() * sizeof(T);
    on.copy_to_device(at, values.data(), num_bytes);
    to += aligned(num_bytes);
    return reinterpret_cast<const T*>(at);
  };
  for (const auto& image : images) {
    shapes_.push_back(image.shape);
    matrices_.push_back({.weights = next(image.weights),
                         .group_scales = next(image.group_scales),
                         .channel_scales = next(image.channel_scales),
                         .bias = next(image.bias)});
  }
  table_ = next(matrices_);
  on.synchronize();
}

} // namespace troupe::model
