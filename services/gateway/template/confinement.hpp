// Confines a template process: while it renders it cannot open files, reach a network, start processes, write
// files, exceed its memory, compete for processors, or outlive its gateway.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace troupe::text {

/// Makes the kernel end this process when its parent ends or is killed. Call it first.
/// @param parent  the process that started this one
void die_with(pid_t parent);

/// Drops every right that rendering does not need, for good.
/// @param memory_bytes  limit of the address space
/// @returns the parts of confinement that are unavailable here, for the operator; empty: none
std::string confine(std::uint64_t memory_bytes);

} // namespace troupe::text
