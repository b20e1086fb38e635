// The memory of the emulated device: the host's, counted as on a device. Only for device_emulated.cpp.
#pragma once

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

/// @threads any
class emulated_memory {
 public:
  static emulated_memory& of_process();

  /// Allocates poisoned memory; pinned memory is not counted.
  /// @throws device_error  there is too little memory
  std::byte* take(memory_place place, std::size_t num_bytes);
  void give_back(std::byte* data) noexcept;

  /// Counts memory without an address, such as that of graphs.
  /// @param operation  for the error
  /// @throws device_error  there is too little memory
  void count(std::size_t num_bytes, const std::string& operation);
  void discount(std::size_t num_bytes) noexcept;

  void set_total(std::size_t num_bytes);
  memory_room room() const;
  std::size_t taken() const;

 private:
  mutable std::mutex mutex_;
  std::size_t total_ = std::size_t{64} << 30;
  std::size_t taken_ = 0;
  std::unordered_map<const std::byte*, std::size_t> pieces_; // of the device, with their counted sizes
};

} // namespace troupe::kernels::cuda
