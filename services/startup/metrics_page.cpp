#include "services/startup/metrics_page.hpp"

#include <string>
#include <utility>

namespace troupe {

std::unique_ptr<metrics::endpoint> serve_metrics(const cluster_options& options,
                                                 std::shared_ptr<const metrics::registry> families,
                                                 metrics::probes answers, const process_log& log) {
  if (!options.metrics_port)
    return nullptr;
  auto endpoint = std::make_unique<metrics::endpoint>(
      metrics::endpoint_config{options.metrics_host, *options.metrics_port}, std::move(families),
      std::move(answers));
  log.line("metrics", "http://" + host_port_text(options.metrics_host, endpoint->port()) + "/metrics");
  return endpoint;
}

} // namespace troupe
