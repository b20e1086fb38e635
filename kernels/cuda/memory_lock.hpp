// The lock of a thread that records a graph, or allocates or frees memory: CUDA may refuse one during the
// other in another thread.
#pragma once

#include <mutex>

namespace troupe::kernels::cuda {

/// Recursive, so that a recording that tries to allocate memory is refused instead of waiting for itself.
inline std::recursive_mutex& memory_lock() {
  static std::recursive_mutex lock;
  return lock;
}

} // namespace troupe::kernels::cuda
