#include "kernels/model/cuda/pinned_matrices.hpp"

#include "kernels/error.hpp"
#include "kernels/model/cuda/matrix_alignment.hpp"

#include <cstring>
#include <utility>

namespace troupe::model {

pinned_matrices::pinned_matrices(std::span<const matrix_image> images)
    : num_bytes_(plan(images)), memory_(num_bytes_) {
  put(images);
}

pinned_matrices::pinned_matrices(std::span<const matrix_image> images, kernels::cuda::pinned_memory memory)
    : num_bytes_(plan(images)), memory_(std::move(memory)) {
  kernels::expect(num_bytes_ <= memory_.size(), "cuda pinned matrices: memory of their size");
  put(images);
}

/// Computes the places of all parts, and the total size.
std::size_t pinned_matrices::plan(std::span<const matrix_image> images) {
  std::size_t total = 0;
  const auto place = [&]<class T>(const std::vector<T>& values) -> std::optional<std::size_t> {
    if (values.empty())
      return std::nullopt;
    const auto offset = total;
    total += aligned(values.size() * sizeof(T));
    return offset;
  };
  for (const auto& image : images)
    matrices_.push_back({.weights = place(image.weights),
                         .group_scales = place(image.group_scales),
                         .channel_scales = place(image.channel_scales),
                         .bias = place(image.bias)});
  return total;
}

void pinned_matrices::put(std::span<const matrix_image> images) {
  const auto copy = [&]<class T>(const std::vector<T>& values, std::optional<std::size_t> offset) {
    if (offset)
      std::memcpy(memory_.data() + *offset, values.data(), values.size() * sizeof(T));
  };
  for (std::size_t i = 0; i < images.size(); ++i) {
    copy(images[i].weights, matrices_[i].weights);
    copy(images[i].group_scales, matrices_[i].group_scales);
    copy(images[i].channel_scales, matrices_[i].channel_scales);
    copy(images[i].bias, matrices_[i].bias);
  }
}

kernels::cuda::weight_matrix pinned_matrices::at(const std::byte* base, std::size_t index) const {
  const auto from = [&]<class T>(std::optional<std::size_t> offset, const T* /*type*/) -> const T* {
    return offset ? reinterpret_cast<const T*>(base + *offset) : nullptr;
  };
  const auto& of = matrices_[index];
  kernels::cuda::weight_matrix matrix;
  matrix.weights = of.weights ? base + *of.weights : nullptr;
  matrix.group_scales = from(of.group_scales, matrix.group_scales);
  matrix.channel_scales = from(of.channel_scales, matrix.channel_scales);
  matrix.bias = from(of.bias, matrix.bias);
  return matrix;
}

} // namespace troupe::model
