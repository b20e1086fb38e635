// One process of a cluster: its actors, its peers, and how it says that it is there.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include "actors/ids.hpp"
#include "actors/transport/transport.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/options/role_options.hpp"
#include "services/process/process_log.hpp"
#include "services/process/service_site.hpp"

namespace troupe {

/// Starts an actor system and the transport on construction; services on it must be gone before it is.
class cluster_process {
 public:
  /// @param role         "gateway", "scheduler", "attention" or "expert", as metrics call it
  /// @param fingerprint  of the model; empty for a scheduler
  /// @throws option_error for an unusable flag or secret file, std::runtime_error when the address is in use
  cluster_process(const cluster_options& cluster, const std::string& role, const std::string& fingerprint,
                  process_log log);
  cluster_process(const cluster_process&) = delete;
  cluster_process& operator=(const cluster_process&) = delete;

  caf::actor_system& system() { return system_; }

  transport& peers() { return peers_; }

  /// Where a worker of this process runs, as a new incarnation.
  service_site site(worker_role role);

  /// The registry of this process, which shows what it is, and its traffic with peers. To be gone before this
  /// is, for whoever serves it.
  /// @param prefix, model_name, numerics  as for metrics::make_registry
  std::shared_ptr<metrics::registry> make_families(const std::string& prefix, const std::string& model_name,
                                                   const std::string& numerics) const;

  /// Call when peers can be answered: logs where, serves /metrics, tells whoever started the process.
  /// @param answers  what /ready and /health say
  /// @returns what serves /metrics until it goes, null without --metrics-port
  /// @throws std::runtime_error when the metrics address cannot be used
  std::unique_ptr<metrics::endpoint> announce(std::shared_ptr<const metrics::registry> families,
                                              metrics::probes answers = {}) const;

 private:
  static caf::actor_system_config& configured(caf::actor_system_config& config);

  cluster_options cluster_;
  process_log log_;
  caf::actor_system_config config_;
  caf::actor_system system_;
  transport peers_;
};

} // namespace troupe
