// One process of a cluster: its actor system, its transport, and its ready line.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/protocol/ids.hpp"
#include "actors/transport/caf/transport.hpp"
#include "actors/transport/wire/cluster_secrets.hpp"
#include "services/cluster/service_site.hpp"
#include "services/cluster/transport_families.hpp"
#include "services/log/process_log.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/metrics/registry.hpp"
#include "services/options/role_options.hpp"
#include "services/startup/reload_signal.hpp"

namespace troupe {

/// Starts an actor system and the transport on construction. Services on it must be destroyed first.
class cluster_process {
 public:
  /// @param role         "gateway", "scheduler", "attention" or "expert", as metrics call it
  /// @param fingerprint  of the model; empty for a scheduler
  /// @param reload       triggers reading the secrets again; outlives this
  /// @throws option_error for an unusable flag or secret file, std::runtime_error when the address is in use
  cluster_process(const cluster_options& cluster, const std::string& role, const std::string& fingerprint,
                  process_log log, reload_signal& reload);
  cluster_process(const cluster_process&) = delete;
  cluster_process& operator=(const cluster_process&) = delete;
  ~cluster_process();

  caf::actor_system& system() { return system_; }

  transport& peers() { return peers_; }

  /// The site of a worker in this process, with a new incarnation's id.
  service_site site(worker_role role);

  /// Adds the traffic with peers to `families`, which keep the last values after this is destroyed.
  void show_traffic(metrics::registry& families) const;

  /// Call when the process can answer peers: logs the endpoint and reports it to the parent process.
  /// @param metrics  HOST:PORT; empty: no metrics
  void announce(const std::string& metrics) const;

 private:
  static caf::actor_system_config& configured(caf::actor_system_config& config);

  cluster_options cluster_;
  process_log log_;
  std::vector<reload_signal::watched_file> watched_; ///< state of the file before it was read
  wire::cluster_secrets secrets_;
  caf::actor_system_config config_;
  caf::actor_system system_;
  transport peers_;
  reload_signal::registration reading_again_;
  std::shared_ptr<shown_peers> shown_;
};

/// Logs that a worker leaves.
/// @returns how long the worker may keep serving: at most defaults::faulty_drain after a fault
std::chrono::seconds announce_drain(const cluster_options& worker, const process_log& log);

} // namespace troupe
