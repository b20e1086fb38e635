// The gateway's last view of the cluster, without asking the scheduler.
#pragma once

#include <optional>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// Empty when the actor of the gateway does not answer in time.
task<std::optional<last_view>> known_view(exchange& client, api& shared);

} // namespace troupe::http
