// Matrices in device memory that belong together: one piece, and the table that kernels find them in.
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

  /// Copies `images`, and waits until they are there. @errors device_error
  device_matrices(const kernels::cuda::stream& on, std::span<const matrix_image> images);

  /// The same into memory that stays as long as they do.
  /// @param to  begins at a multiple of 256 and has room for `bytes_of` them
  device_matrices(const kernels::cuda::stream& on, std::span<const matrix_image> images, std::byte* to);

  /// Device memory that matrices of these shapes, without biases, take together.
  static std::size_t bytes_of(std::span<const kernels::cuda::weight_shape> shapes);

  /// Taken here; 0 where they lie in other memory.
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
