// For tests: faults of the emulated device, and misuse that it has observed.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cuda {

/// From now on the device is lost, as after a kernel's access to a wrong address: waiting and allocating
/// throw a device_error. False: the device works again, which a real one never does.
/// @threads any
void lose_emulated_device(bool lost);

/// Sets the device's memory, including what is allocated already; initially 64 GiB.
/// @threads any
void set_emulated_memory(std::size_t num_bytes);

/// Allocated memory, in the pieces of a device.
/// @threads any
std::size_t emulated_memory_taken();

/// How often a thread without a selected device freed memory, a stream, an event or a graph.
/// @threads any
std::uint64_t emulated_releases_without_device();

} // namespace troupe::kernels::cuda
