#include "services/process/cluster_process.hpp"

#include <utility>

#include "actors/type_ids.hpp"
#include "services/metrics/process_figures.hpp"
#include "services/process/cluster_entry.hpp"
#include "services/process/compute.hpp"
#include "services/process/metrics_page.hpp"
#include "services/process/transport_families.hpp"

namespace troupe {

caf::actor_system_config& cluster_process::configured(caf::actor_system_config& config) {
  configure(config);
  configure_transport(config);
  set_actor_threads(config);
  return config;
}

cluster_process::cluster_process(const cluster_options& cluster, const std::string& role,
                                 const std::string& fingerprint, process_log log)
    : cluster_(cluster),
      log_(std::move(log)),
      system_(configured(config_)),
      peers_(system_, make_transport_options(cluster_, role, fingerprint, log_)) {}

service_site cluster_process::site(worker_role role) {
  if (cluster_.schedulers.empty()) {
    throw option_error(
        "--scheduler is missing: HOST:PORT of the scheduler, and of its standby if it has one");
  }
  return {system_,
          peers_.actor(),
          cluster_.schedulers,
          {draw_worker_id(), role, cluster_.name, peers_.endpoint()},
          log_};
}

std::shared_ptr<metrics::registry> cluster_process::make_families(const std::string& prefix,
                                                                  const std::string& model_name,
                                                                  const std::string& numerics) const {
  auto families = metrics::make_registry(prefix, model_name, numerics);
  show_transport(*families, peers_, transport_options{}.window_bytes);
  return families;
}

std::unique_ptr<metrics::endpoint>
cluster_process::announce(std::shared_ptr<const metrics::registry> families, metrics::probes answers) const {
  log_.line("listening", peers_.endpoint());
  auto scrapes = serve_metrics(cluster_, std::move(families), std::move(answers), log_);
  report_ready(cluster_, peers_.endpoint(),
               scrapes ? host_port_text(cluster_.metrics_host, scrapes->port()) : std::string{});
  return scrapes;
}

} // namespace troupe
