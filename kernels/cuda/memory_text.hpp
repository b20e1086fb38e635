// Texts about memory in errors of the real and the emulated device.
#pragma once

#include <string>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

inline std::string bytes_text(std::size_t num_bytes) {
  return std::to_string(num_bytes) + " bytes";
}

/// The operation.
inline std::string allocation_text(memory_place place, std::size_t num_bytes) {
  return "allocate " + bytes_text(num_bytes)
         + (place == memory_place::device ? " on the device" : " of pinned memory");
}

/// The available memory.
inline std::string room_text(const memory_room& room) {
  return std::to_string(room.free_bytes >> 20) + " of the device's " + std::to_string(room.total_bytes >> 20)
         + " MiB are free";
}

} // namespace troupe::kernels::cuda
