// Forces the end of a process whose shutdown hangs.
#pragma once

#include <chrono>

#include "services/log/process_log.hpp"

namespace troupe {

/// Time for the shutdown besides draining.
inline constexpr std::chrono::seconds exit_margin{10};

/// Gives the process `time` to end. After that, logs a line and ends it with status 1 without joining
/// threads: a thread that waits for a file system or a name server cannot be woken.
void exit_within(std::chrono::milliseconds time, const process_log& log);

} // namespace troupe
