// The metrics endpoint of a worker or scheduler process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "services/metrics/endpoint.hpp"
#include "services/options/role_options.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// Serves /metrics, /health and /ready on --metrics-host and --metrics-port, until the returned object goes.
/// @param answers  what /ready and /health say
/// @returns null without --metrics-port
/// @throws std::runtime_error when the address cannot be used
std::unique_ptr<metrics::endpoint> serve_metrics(const cluster_options& options,
                                                 std::shared_ptr<const metrics::registry> families,
                                                 metrics::probes answers, const process_log& log);

} // namespace troupe
