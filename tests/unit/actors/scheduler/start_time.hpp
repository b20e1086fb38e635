// The time at which tests of the scheduler's desks begin.
#pragma once

#include "actors/scheduler/member_table.hpp"

namespace troupe {

inline constexpr time_point start_time{};

} // namespace troupe
