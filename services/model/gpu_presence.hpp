// Whether the machine has a GPU. Asks the operating system, since a broken driver reports none.
#pragma once

#include <filesystem>

namespace troupe {

/// Whether this machine has an NVIDIA GPU, with or without a driver.
/// @param devices  the system's list of PCI devices
bool has_nvidia_gpu(const std::filesystem::path& devices = "/sys/bus/pci/devices");

/// Whether this build supports such a GPU and the machine has one.
bool could_use_gpu();

} // namespace troupe
