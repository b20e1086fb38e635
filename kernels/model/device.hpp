// The kinds of devices that compute models.
#pragma once

#include <cstdint>

namespace troupe::model {

enum class device_kind : std::uint8_t { cpu, cuda };

/// One device of this machine.
struct device {
  device_kind kind = device_kind::cpu;
  /// Number within its kind; 0 for the CPU.
  std::uint32_t number = 0;

  friend bool operator==(const device&, const device&) = default;
};

/// Start of the numerics class: devices with one name give the same bits. "cpu-x86" for every x86 processor,
/// "cuda-sm90" for the only kind of GPU with kernels.
const char* name_of(device_kind kind);

} // namespace troupe::model
