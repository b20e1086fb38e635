// Whether there is a GPU at all, asked of the system: a driver that does not work knows of none.
#pragma once

#include <filesystem>

namespace troupe {

/// Whether this machine has an NVIDIA GPU, with or without a driver.
/// @param devices  where the system lists what is on the PCI bus
bool has_nvidia_gpu(const std::filesystem::path& devices = "/sys/bus/pci/devices");

/// Whether this program is a build for such a GPU, and the machine has one.
bool could_use_gpu();

} // namespace troupe
