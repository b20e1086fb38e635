// The value of --device.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct device_choice {
  enum class kind_type {
    automatic, ///< a GPU if one is usable, otherwise the CPU
    cpu,
    cuda,
  };

  kind_type kind = kind_type::automatic;
  std::uint32_t number = 0; ///< of the CUDA device

  bool operator==(const device_choice&) const = default;
};

/// Reads "auto", "cpu", "cuda" (the first device) or "cuda:N", without checking that the device exists.
/// @throws option_error for anything else
device_choice parse_device(const std::string& text);

} // namespace troupe
