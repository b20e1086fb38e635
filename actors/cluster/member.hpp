// The MEMBER: keeps one worker in the cluster. It finds the scheduler, joins for the worker, renews its
// lease, passes orders and views on, and joins again after the scheduler was absent. One per worker process,
// so worker actors need no knowledge of membership.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/cluster/directory.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/member_actor.hpp"
#include "actors/protocol/view_messages.hpp"

namespace troupe {

class member_pulse;

struct member_config {
  worker_role role = worker_role::expert;
  /// Where schedulers listen, active and standby; empty inside one process.
  std::vector<std::string> scheduler_endpoints;
  directory_actor directory;
  caf::strong_actor_ptr worker;        ///< an expert_host, attention_worker or gateway actor
  std::uint64_t seed = 0;              ///< of the random pauses; different for each worker
  std::shared_ptr<member_pulse> pulse; ///< for the probes of the process; may be null
};

/// Starts a member. It asks the schedulers one after another, starting with the last one that answered, or
/// after a loss with the one behind it. When all have been asked, it pauses (reconnect_pauses.hpp). It
/// ignores schedulers of an older term than it has seen. It ends with the worker, or with a scheduler's
/// ec::incompatible as its exit reason: then this worker can never be part of the cluster, and the error says
/// why.
member_actor spawn_member(caf::actor_system& system, member_config config);

} // namespace troupe
