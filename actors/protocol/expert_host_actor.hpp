// The interface of the EXPERT HOST actor.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/expert_messages.hpp"
#include "actors/protocol/status_messages.hpp"

namespace troupe {

/// The EXPERT HOST interface.
using expert_host_actor = caf::typed_actor<
    // Computes the batch; rows of one layer from several batches share a step. Fails with ec::not_hosted (an
    // expert is not here), ec::overloaded (too many rows wait) and ec::bad_request (malformed batch).
    caf::replies_to<expert_batch>::with<expert_result>,
    // Changes the hosted experts; answers when the change is done.
    caf::replies_to<host_order>::with<host_report>,
    // The worker's description for joining.
    caf::replies_to<caf::join_atom>::with<worker_hello>,
    // The current load.
    caf::replies_to<load_atom>::with<lease_renewal>,
    // Ignored: members pass views to every worker, but a host follows its orders and is sent none.
    caf::reacts_to<cluster_view>,
    // Counters for status pages.
    caf::replies_to<status_atom>::with<expert_host_status>>;

} // namespace troupe
