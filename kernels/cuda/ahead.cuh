// Loads ahead of their use: a thread that waits for each load before starting the next one gets only a few
// bytes per microsecond.
#pragma once

#include <cstddef>

#include "kernels/cuda/memory.cuh"

namespace troupe::kernels::cuda {

/// Passes values[first], values[first + step], … to `take(index, value)` in this order; `Ahead` of them are
/// loaded before the first is passed.
template <unsigned Ahead, class Take>
__device__ void for_each_loaded(const float* values, std::size_t count, std::size_t first, std::size_t step,
                                const Take& take) {
  for (std::size_t base = first; base < count; base += Ahead * step) {
    float loaded[Ahead];
    TROUPE_UNROLL
    for (unsigned a = 0; a < Ahead; ++a) {
      const std::size_t i = base + a * step;
      loaded[a] = values[i < count ? i : count - 1];
    }
    TROUPE_UNROLL
    for (unsigned a = 0; a < Ahead; ++a) {
      const std::size_t i = base + a * step;
      if (i < count)
        take(i, loaded[a]);
    }
  }
}

} // namespace troupe::kernels::cuda
