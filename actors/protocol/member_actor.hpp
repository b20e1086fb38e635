// The interface of the MEMBER actor.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/encoded_once.hpp"
#include "actors/protocol/view_messages.hpp"

namespace troupe {

/// The MEMBER interface, as the scheduler sees it.
using member_actor = caf::typed_actor<
    // Workers or placement changed. Older terms and epochs are dropped. A change that does not fit the
    // member's view makes it request the whole view.
    caf::reacts_to<shared_view_change>,
    // Hold exactly these experts (expert workers only); passed to the expert host.
    caf::replies_to<host_order>::with<host_report>,
    // The scheduler has declared this worker dead: join again as new.
    caf::reacts_to<fence_atom>,
    // This expert worker holds all that its joining assigned to it. Sent if worker_welcome::tells_ready.
    caf::reacts_to<ready_atom>,
    // Time to look for the scheduler, or to renew (local only).
    caf::reacts_to<caf::tick_atom>,
    // Leaves in order: the scheduler moves everything away, and so does its successor if it ends meanwhile.
    // Answers when nothing depends on the worker, or no scheduler was present for defaults::leave_alone.
    // Until then the worker serves.
    caf::replies_to<caf::leave_atom>::with<void>>;

} // namespace troupe
