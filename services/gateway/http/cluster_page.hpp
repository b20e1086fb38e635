// The cluster as GET /cluster shows it.
#pragma once

#include <string>

#include "actors/cluster/status_messages.hpp"
#include "services/gateway/http/generation_backend.hpp"

namespace troupe::http {

/// What the scheduler says: its term and queue, every worker with its load, where every expert lives.
std::string cluster_page(const scheduler_status& status);

/// What the gateway remembers while the scheduler does not answer; `why` says what went wrong. Where experts
/// live it has never been told.
std::string cluster_page(const last_view& known, const std::string& why);

} // namespace troupe::http
