// What --device asks for.
#pragma once

#include <cstdint>
#include <string>

namespace troupe {

struct device_choice {
  enum class kind_type {
    automatic, ///< a GPU where one can be used, otherwise the CPU
    cpu,
    cuda,
  };

  kind_type kind = kind_type::automatic;
  uint32_t number = 0; ///< of the CUDA device

  bool operator==(const device_choice&) const = default;
};

/// Reads "auto", "cpu", "cuda" (the first device) or "cuda:N"; whether it is there is another question.
/// @throws option_error for anything else
device_choice parse_device(const std::string& text);

} // namespace troupe
