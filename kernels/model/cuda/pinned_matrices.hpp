// Matrices that belong together, in the host's memory, as they will lie in a device's.
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
  /// @errors device_error
  explicit pinned_matrices(std::span<const matrix_image> images);

  /// One piece, from which devices copy by themselves.
  const std::byte* data() const { return memory_.data(); }

  std::size_t num_bytes() const { return memory_.size(); }

  /// Matrix `index` where all of it was copied to `base`, which begins at a multiple of 256.
  kernels::cuda::weight_matrix at(const std::byte* base, std::size_t index) const;

 private:
  /// Where its parts begin; nothing: it has none of these.
  struct parts {
    std::optional<std::size_t> weights;
    std::optional<std::size_t> group_scales;
    std::optional<std::size_t> channel_scales;
    std::optional<std::size_t> bias;
  };

  kernels::cuda::pinned_memory memory_;
  std::vector<parts> matrices_;
};

} // namespace troupe::model
