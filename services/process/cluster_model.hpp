// Which model a cluster serves, for a worker that cannot tell from its own files.
#pragma once

#include <optional>
#include <string>

#include "services/process/service_site.hpp"

namespace troupe {

/// What the scheduler says of the cluster's experts.
struct cluster_model {
  std::string fingerprint;
  std::string numerics_class; ///< of the expert workers
};

/// Asks one scheduler after another until one of them knows an expert worker: the first worker of a cluster
/// needs files. Every question has a deadline; says once in the log that it waits.
/// @returns nothing when the process was told to stop meanwhile
std::optional<cluster_model> ask_cluster_model(const service_site& site);

} // namespace troupe
