#include "services/process/metrics_page.hpp"

#include <string>
#include <utility>

namespace troupe {

std::unique_ptr<metrics::endpoint> serve_metrics(const cluster_options& options,
                                                 std::shared_ptr<const metrics::registry> families,
                                                 std::function<std::string()> why_not_ready,
                                                 const process_log& log) {
  if (!options.metrics_port) {
    return nullptr;
  }
  // The endpoint starts once the process serves, so it is ready as long as it answers, unless it says
  // otherwise; whether the cluster is, the gateway says.
  if (!why_not_ready) {
    why_not_ready = [] { return std::string{}; };
  }
  auto endpoint = std::make_unique<metrics::endpoint>(
      metrics::endpoint_config{options.metrics_host, *options.metrics_port}, std::move(families),
      std::move(why_not_ready));
  log.line("metrics", "http://" + host_port_text(options.metrics_host, endpoint->port()) + "/metrics");
  return endpoint;
}

} // namespace troupe
