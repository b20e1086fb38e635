// The memory of the emulated device: the host's, counted as a device counts its own. For
// device_emulated.cpp only.
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

  /// Poisoned; what is pinned is not counted. @errors device_error when there is not so much
  std::byte* take(memory_place place, std::size_t num_bytes);
  void give_back(std::byte* data) noexcept;

  /// Counts what lies nowhere, as graphs do.
  /// @param operation  for the error
  /// @errors device_error when there is not so much
  void count(std::size_t num_bytes, const std::string& operation);
  void discount(std::size_t num_bytes) noexcept;

  void set_total(std::size_t num_bytes);
  memory_room room() const;
  std::size_t taken() const;

 private:
  mutable std::mutex mutex_;
  std::size_t total_ = std::size_t{64} << 30;
  std::size_t taken_ = 0;
  std::unordered_map<const std::byte*, std::size_t> pieces_; // of the device: what each is counted as
};

} // namespace troupe::kernels::cuda
