// An emulated device with little memory.
#pragma once

#include "kernels/cuda/emulated_faults.hpp"

#include <cstddef>

namespace troupe::test {

/// While it lives, the emulated device has this much memory beyond what was allocated at its start.
class emulated_room {
 public:
  explicit emulated_room(std::size_t free_bytes) {
    kernels::cuda::set_emulated_memory(kernels::cuda::emulated_memory_taken() + free_bytes);
  }

  ~emulated_room() { kernels::cuda::set_emulated_memory(std::size_t{64} << 30); }

  emulated_room(const emulated_room&) = delete;
  emulated_room& operator=(const emulated_room&) = delete;
};

} // namespace troupe::test
