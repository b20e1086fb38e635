// Ends a process that does not end by itself.
#pragma once

#include <chrono>

#include "services/process/process_log.hpp"

namespace troupe {

/// For what a process does at its stop besides draining.
inline constexpr std::chrono::seconds exit_margin{10};

/// From now on the process has `time` to end. After that it says so and ends with status 1, whatever its
/// threads wait for: one that a file system or a name server has caught can neither be joined nor woken up.
void exit_within(std::chrono::milliseconds time, const process_log& log);

} // namespace troupe
