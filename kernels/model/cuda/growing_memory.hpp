// Working memory whose size changes from batch to batch.
#pragma once

#include "kernels/cuda/device.hpp"

#include <cstddef>

namespace troupe::model {

/// Keeps its memory when less is needed.
/// @tparam Memory  device_memory or pinned_memory
template <class Memory>
class growing_memory {
 public:
  /// Makes room for `count` elements; growing loses the content. Only while no work uses it.
  /// @throws device_error
  template <class T>
  T* reserve(std::size_t count) {
    const auto num_bytes = count * sizeof(T);
    if (num_bytes > memory_.size()) {
      memory_ = {}; // freed before more is allocated
      try {
        memory_ = Memory(num_bytes + num_bytes / 4);
      } catch (const kernels::cuda::device_error& error) {
        if (!error.is_out_of_memory())
          throw;
        memory_ = Memory(num_bytes);
      }
    }
    return as<T>();
  }

  template <class T>
  T* as() const {
    return memory_.template as<T>();
  }

  /// Changes when it grows.
  const std::byte* address() const { return memory_.data(); }

 private:
  Memory memory_;
};

using growing_device = growing_memory<kernels::cuda::device_memory>;
using growing_pinned = growing_memory<kernels::cuda::pinned_memory>;

/// Waits at the end of a scope, also after an exception, for all work of a stream, so that nothing that the
/// work uses is destroyed before.
class work_ends_here {
 public:
  explicit work_ends_here(const kernels::cuda::stream& on) : on_(on) {}

  ~work_ends_here() {
    try {
      on_.synchronize();
    } catch (const kernels::cuda::device_error&) { // NOLINT(bugprone-empty-catch)
      // The next wait for results reports it.
    }
  }

  work_ends_here(const work_ends_here&) = delete;
  work_ends_here& operator=(const work_ends_here&) = delete;

 private:
  const kernels::cuda::stream& on_;
};

} // namespace troupe::model
