// Related matrices in device memory: one allocation, and the table that kernels use.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/weights.hpp"
#include "kernels/model/cuda/matrix_image.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace troupe::model {

class device_matrices {
 public:
  device_matrices() = default;

  /// Copies `images`, and waits for the copies.
  /// @throws device_error
  device_matrices(const kernels::cuda::stream& on, std::span<const matrix_image> images);

  /// The same into memory that outlives the matrices.
  /// @param to  a multiple of 256, with room for `bytes_of` bytes
  device_matrices(const kernels::cuda::stream& on, std::span<const matrix_image> images, std::byte* to);

  /// Device memory of matrices of these shapes.
  static std::size_t bytes_of(std::span<const kernels::cuda::weight_shape> shapes, bool have_bias);

  /// Own memory; 0 if they are in other memory.
  std::size_t num_bytes() const { return memory_.size(); }

  bool empty() const { return matrices_.empty(); }

  const kernels::cuda::weight_shape& shape(std::size_t index) const { return shapes_[index]; }

  /// [number of images], in device memory.
  const kernels::cuda::weight_matrix* table() const { return table_; }

  /// The same on the host.
  std::span<const kernels::cuda::weight_matrix> matrices() const { return matrices_; }

 private:
  void put(const kernels::cuda::stream& on, std::span<const matrix_image> images, std::byte* to);

  kernels::cuda::device_memory memory_;
  std::vector<kernels::cuda::weight_shape> shapes_;
  std::vector<kernels::cuda::weight_matrix> matrices_;
  const kernels::cuda::weight_matrix* table_ = nullptr;
};

} // namespace troupe::model
