// The metrics endpoint of a worker or scheduler process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "services/log/process_log.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/options/role_options.hpp"

namespace troupe {

/// Serves /metrics, /health and /ready on --metrics-host and --metrics-port while the returned object lives.
/// @param answers  of /ready and /health
/// @returns null without --metrics-port
/// @throws std::runtime_error when the address cannot be used
std::unique_ptr<metrics::endpoint> serve_metrics(const cluster_options& options,
                                                 std::shared_ptr<const metrics::registry> families,
                                                 metrics::probes answers, const process_log& log);

} // namespace troupe
