// Asks the scheduler which model the cluster serves, for a worker without model files.
#pragma once

#include <optional>
#include <string>

#include "services/cluster/service_site.hpp"

namespace troupe {

/// The scheduler's answer about the cluster's experts.
struct cluster_model {
  std::string fingerprint;
  std::string numerics_class; ///< of the expert workers
};

/// Asks one scheduler after another until one of them knows an expert worker: the first worker of a cluster
/// needs files. Every question has a deadline. Logs once that it waits.
/// @returns nothing when a stop signal arrives first
std::optional<cluster_model> ask_cluster_model(const service_site& site);

} // namespace troupe
