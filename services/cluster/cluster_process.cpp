#include "services/cluster/cluster_process.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "actors/protocol/defaults.hpp"
#include "actors/protocol/type_ids.hpp"
#include "services/cluster/cluster_entry.hpp"
#include "services/model/compute.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {

caf::actor_system_config& cluster_process::configured(caf::actor_system_config& config) {
  configure(config);
  configure_transport(config);
  set_actor_threads(config);
  return config;
}

cluster_process::cluster_process(const cluster_options& cluster, const std::string& role,
                                 const std::string& fingerprint, process_log log, reload_signal& reload)
    : cluster_(cluster),
      log_(std::move(log)),
      watched_(reload_signal::look_at({cluster_.secret_file})),
      secrets_(read_secrets(cluster_.secret_file)),
      system_(configured(config_)),
      peers_(system_, make_transport_options(cluster_, secrets_, role, fingerprint, log_)),
      reading_again_(reload.add([this] {
        auto all = read_secrets(cluster_.secret_file);
        const std::string text = std::to_string(all.size()) + (all.size() == 1 ? " secret" : " secrets");
        secrets_.replace(std::move(all));
        log_.line("secret-read", text + " of the cluster in " + cluster_.secret_file);
      })),
      shown_(std::make_shared<shown_peers>(peers_)) {
  if (cluster_.reload_interval_s > 0)
    reload.watch(watched_, std::chrono::seconds{cluster_.reload_interval_s});
}

cluster_process::~cluster_process() {
  shown_->forget();
}

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

void cluster_process::show_traffic(metrics::registry& families) const {
  show_transport(families, shown_, transport_options{}.window_bytes);
}

void cluster_process::announce(const std::string& metrics) const {
  log_.line("listening", peers_.endpoint());
  report_ready(cluster_, peers_.endpoint(), metrics);
}

std::chrono::seconds announce_drain(const cluster_options& worker, const process_log& log) {
  std::chrono::seconds drain{worker.drain_timeout};
  if (stop_signal::exit_status() != 0) // a fault: its experts or sequences may be unusable
    drain = std::min<std::chrono::seconds>(drain, defaults::faulty_drain);
  log.line("stopping", "others have " + std::to_string(drain.count())
                           + " s to take over what this worker holds; a second signal ends it at once");
  return drain;
}

} // namespace troupe
