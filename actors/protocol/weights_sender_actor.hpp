// The interface of the WEIGHTS SENDER actor.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/weights_messages.hpp"

namespace troupe {

/// The WEIGHTS SENDER interface.
using weights_sender_actor = caf::typed_actor<
    // A piece of an expert that is loaded here. Fails with ec::incompatible (another model or numerics
    // class), ec::not_hosted (the expert is not loaded), ec::overloaded (the limit of simultaneous transfers
    // is reached) and ec::bad_request (bytes beyond the expert).
    caf::replies_to<weights_read>::with<weights_chunk>,
    // Drops readers that have stopped asking (local only).
    caf::reacts_to<caf::tick_atom>>;

} // namespace troupe
