// The MEMBER: keeps one worker in the cluster. It finds the scheduler, joins on the worker's behalf, renews
// its lease, passes orders and views on, and joins again when the scheduler has been away. One per worker
// process, so that no worker actor knows how membership works.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/cluster/view_messages.hpp"

namespace troupe {

/// The MEMBER interface, as the scheduler sees it.
using member_actor = caf::typed_actor<
    // Workers or placement changed; older terms and epochs are dropped, and one that does not fit what the
    // member has makes it ask for the whole view.
    caf::reacts_to<shared_view_change>,
    // Hold exactly these experts (expert workers only); passed to the expert host.
    caf::replies_to<host_order>::with<host_report>,
    // The scheduler has declared this worker dead: join again as new.
    caf::reacts_to<fence_atom>,
    // Look for the scheduler, or renew (local only).
    caf::reacts_to<caf::tick_atom>,
    // Says good-bye to the scheduler, which moves everything away; answers when that is done.
    caf::replies_to<caf::leave_atom>::with<void>>;

class member_pulse;

struct member_config {
  worker_role role = worker_role::expert;
  /// Where schedulers listen, active or standby; empty inside one process.
  std::vector<std::string> scheduler_endpoints;
  directory_actor directory;
  caf::strong_actor_ptr worker;        ///< an expert_host, attention_worker or gateway actor
  uint64_t seed = 0;                   ///< of its pauses: another one for each worker
  std::shared_ptr<member_pulse> pulse; ///< for the process' probes; may be null
};

/// Starts a member. Of several schedulers it asks one after another, the one that answered last first, or the
/// one behind it when that has just been lost, and pauses (reconnect_pauses.hpp) when it has asked all of
/// them. It follows none of an older term than it has seen. It ends with the worker, or with the scheduler's
/// ec::incompatible as its exit reason: then this worker can never be part of the cluster, and the error says
/// why.
member_actor spawn_member(caf::actor_system& system, member_config config);

} // namespace troupe
