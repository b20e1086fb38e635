// Pages of the management port while the gateway is still starting.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "services/metrics/endpoint.hpp"
#include "services/metrics/registry.hpp"
#include "services/options/role_options.hpp"

namespace troupe::http {

/// Serves /health ("loading"), /ready (503) and /metrics on --management-port, in the form that the gateway
/// has, until the returned endpoint is given to the server.
/// @param loading  what is being loaded, with its progress; empty: nothing
/// @returns null without --management-port
/// @throws std::runtime_error when the address cannot be used
std::unique_ptr<metrics::endpoint> open_early_pages(const gateway_options& options,
                                                    std::function<std::string()> loading,
                                                    std::shared_ptr<const metrics::registry> families);

} // namespace troupe::http
