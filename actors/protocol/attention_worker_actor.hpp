// The interface of the ATTENTION WORKER actor.
#pragma once

#include <cstdint>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/status_messages.hpp"

namespace troupe {

/// The ATTENTION WORKER interface.
using attention_worker_actor = caf::typed_actor<
    // Generates; tokens go to the sender (a session) as token_update. A sequence that cannot run gets
    // sequence_failed. A newer attempt of a known sequence replaces the older one.
    caf::reacts_to<generation_request>,
    // Cancels the sequence: it leaves before the next iteration, and its KV blocks are freed.
    caf::reacts_to<cancel_atom, sequence_id, std::uint32_t /* attempt */>,
    // Workers and placement changed.
    caf::reacts_to<cluster_view>,
    // The worker's description for joining.
    caf::replies_to<caf::join_atom>::with<worker_hello>,
    // The current load.
    caf::replies_to<load_atom>::with<lease_renewal>,
    // Counters for status pages.
    caf::replies_to<status_atom>::with<attention_status>>;

} // namespace troupe
