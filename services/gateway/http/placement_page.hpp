// What /cluster/placement answers, as JSON. The README of this folder's parent says what is in it.
#pragma once

#include <string>

#include "actors/protocol/rebalancer_messages.hpp"

namespace troupe::http {

/// The state of the rebalancer.
std::string placement_page(const rebalancer_status& status);

/// The change that a command has begun, or would begin.
std::string change_page(const placement_change& change, bool is_dry_run);

} // namespace troupe::http
