// What /cluster/placement answers, as JSON. The README of this folder's parent says what is in it.
#pragma once

#include <string>

#include "actors/rebalancer/rebalancer_messages.hpp"

namespace troupe::http {

/// What the rebalancer is doing.
std::string placement_page(const rebalancer_status& status);

/// What a command has begun, or would.
std::string change_page(const placement_change& change, bool is_dry_run);

} // namespace troupe::http
