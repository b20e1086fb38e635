// The cluster as GET /cluster shows it.
#pragma once

#include <string>

#include "actors/protocol/status_messages.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe::http {

/// The scheduler's status: its term and queue, every worker with its load, and the hosts of every expert.
std::string cluster_page(const scheduler_status& status);

/// What the gateway remembers while the scheduler does not answer. A gateway never knows where experts live.
/// @param why  why the scheduler does not answer
std::string cluster_page(const last_view& known, const std::string& why);

} // namespace troupe::http
