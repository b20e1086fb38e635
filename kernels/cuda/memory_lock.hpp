// What a thread holds that records a graph, or takes or gives back memory: CUDA may refuse the one while
// another thread does the other.
#pragma once

#include <mutex>

namespace troupe::kernels::cuda {

/// Recursive, so that a recording that tries to take memory is refused instead of waiting for itself.
inline std::recursive_mutex& memory_lock() {
  static std::recursive_mutex lock;
  return lock;
}

} // namespace troupe::kernels::cuda
