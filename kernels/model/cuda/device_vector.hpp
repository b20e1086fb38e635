// Constant numbers in device memory.
#pragma once

#include "kernels/cuda/device.hpp"

#include <cstddef>
#include <span>

namespace troupe::model {

template <class T>
class device_vector {
 public:
  device_vector() = default;

  /// Copies `values`, and waits for the copy.
  /// @throws device_error
  device_vector(const kernels::cuda::stream& on, std::span<const T> values) : memory_(values.size_bytes()) {
    on.copy_to_device(memory_.data(), values.data(), values.size_bytes());
    on.synchronize();
  }

  /// Null if there are none.
  const T* data() const { return memory_.template as<T>(); }

  std::size_t num_bytes() const { return memory_.size(); }

 private:
  kernels::cuda::device_memory memory_;
};

} // namespace troupe::model
