// Faults of the emulated device, for tests, and what it saw that a real one would not like.
#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe::kernels::cuda {

/// From now on the device is lost, as after a kernel's access to a wrong address: whoever waits for it or
/// takes memory gets a device_error that says so. False: it is well again, which a real one never is.
/// @threads any
void lose_emulated_device(bool lost);

/// How much memory the device has from now on, what is taken already among it; 64 GiB to begin with.
/// @threads any
void set_emulated_memory(std::size_t num_bytes);

/// What is taken of it, in the pieces in which a device gives it. @threads any
std::size_t emulated_memory_taken();

/// How often a thread that had selected no device gave back memory, a stream, an event or a graph.
/// @threads any
std::uint64_t emulated_releases_without_device();

} // namespace troupe::kernels::cuda
