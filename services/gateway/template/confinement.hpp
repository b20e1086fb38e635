// What a template process may not do once it renders: open files, reach a network, start processes, write
// files, take more memory than it is given, take processors from who computes, or outlive its gateway.
#pragma once

#include <cstdint>
#include <string>

#include <sys/types.h>

namespace troupe::text {

/// Ends this process with its parent, also where the parent is killed. Call it first.
/// @param parent  the process that started this one
void die_with(pid_t parent);

/// Gives up every right that rendering does not need; nothing brings them back.
/// @param memory_bytes  of address space from now on
/// @returns what cannot be given up here, for the operator; empty: nothing
std::string confine(std::uint64_t memory_bytes);

} // namespace troupe::text
