// Kinds of devices that models are computed on.
#pragma once

#include <cstdint>

namespace troupe::model {

enum class device_kind : std::uint8_t { cpu, cuda };

/// One device of this machine.
struct device {
  device_kind kind = device_kind::cpu;
  /// Which of its kind; 0 for the CPU.
  std::uint32_t number = 0;

  friend bool operator==(const device&, const device&) = default;
};

/// How the numerics class begins: devices of one name give the same bits. "cpu-x86" for every x86 processor,
/// "cuda-sm90" for the one kind of GPU that there are kernels for.
const char* name_of(device_kind kind);

} // namespace troupe::model
