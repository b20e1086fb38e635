// Where a worker service runs: the same in one process and in many.
#pragma once

#include <string>
#include <vector>

#include <caf/actor_system.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "services/log/process_log.hpp"

namespace troupe {

struct service_site {
  caf::actor_system& system;
  directory_actor directory;                    ///< finds the scheduler and other workers
  std::vector<std::string> scheduler_endpoints; ///< active and standby; empty inside one process
  worker_address address;                       ///< of this worker
  process_log log;
};

} // namespace troupe
