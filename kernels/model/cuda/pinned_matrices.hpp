// Related matrices in the host's memory, in the layout of device memory.
#pragma once

#include "kernels/cuda/device.hpp"
#include "kernels/cuda/weights.hpp"
#include "kernels/model/cuda/matrix_image.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

namespace troupe::model {

class pinned_matrices {
 public:
  /// @throws device_error
  explicit pinned_matrices(std::span<const matrix_image> images);

  /// Uses memory that was allocated before; it may be larger.
  pinned_matrices(std::span<const matrix_image> images, kernels::cuda::pinned_memory memory);

  /// One contiguous piece, from which devices copy on their own.
  const std::byte* data() const { return memory_.data(); }

  std::size_t num_bytes() const { return num_bytes_; }

  /// Matrix `index` of a copy of all at `base`, a multiple of 256.
  kernels::cuda::weight_matrix at(const std::byte* base, std::size_t index) const;

 private:
  /// Places of its parts; empty: it lacks the part.
  struct parts {
    std::optional<std::size_t> weights;
    std::optional<std::size_t> group_scales;
    std::optional<std::size_t> channel_scales;
    std::optional<std::size_t> bias;
  };

  std::size_t plan(std::span<const matrix_image> images);
  void put(std::span<const matrix_image> images);

  std::vector<parts> matrices_; // before the memory, whose size they determine
  std::size_t num_bytes_;
  kernels::cuda::pinned_memory memory_;
};

} // namespace troupe::model
