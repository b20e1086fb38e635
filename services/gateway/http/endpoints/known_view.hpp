// What the gateway knows of the cluster, without asking the scheduler.
#pragma once

#include <optional>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// Nothing when the gateway's actor does not answer in time.
task<std::optional<last_view>> known_view(exchange& client, api& shared);

} // namespace troupe::http
