// The clock of connections: deadlines, heartbeats, silence.
#pragma once

#include <chrono>

namespace troupe::wire {

using clock = std::chrono::steady_clock;

} // namespace troupe::wire
