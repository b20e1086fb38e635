// Memory of a working set whose size changes from batch to batch.
#pragma once

#include "kernels/cuda/device.hpp"

#include <cstddef>

namespace troupe::model {

/// Keeps its memory while less is needed.
/// @tparam Memory  device_memory or pinned_memory
template <class Memory>
class growing_memory {
 public:
  /// Room for `count` elements; what was in it is lost where it has to grow. Only while no work names it.
  /// @errors device_error
  template <class T>
  T* reserve(std::size_t count) {
    const auto num_bytes = count * sizeof(T);
    if (num_bytes > memory_.size()) {
      memory_ = {}; // given back before more is taken
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

/// Waits at the end of a scope for whatever a stream was given, so that nothing that work names goes before
/// it: also where an exception leaves the scope early.
class work_ends_here {
 public:
  explicit work_ends_here(const kernels::cuda::stream& on) : on_(on) {}

  ~work_ends_here() {
    try {
      on_.synchronize();
    } catch (const kernels::cuda::device_error&) { // NOLINT(bugprone-empty-catch)
      // Whoever waits for results hears of it.
    }
  }

  work_ends_here(const work_ends_here&) = delete;
  work_ends_here& operator=(const work_ends_here&) = delete;

 private:
  const kernels::cuda::stream& on_;
};

} // namespace troupe::model
