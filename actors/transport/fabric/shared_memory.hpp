// Whether this host has room for messages through POSIX shared memory.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::wire {

/// What a peer takes of /dev/shm: UCX's receive buffers, 512 of 32 KiB, and its queue; and some room to
/// spare, so that queues that exist do not run out.
constexpr std::uint64_t shared_memory_per_peer = std::uint64_t{24} << 20;

/// Why one more peer cannot come by shared memory now, in a sentence; empty when it can.
/// @param folder  where POSIX shared memory is kept
std::string shared_memory_shortage(const std::string& folder = "/dev/shm");

} // namespace troupe::wire
