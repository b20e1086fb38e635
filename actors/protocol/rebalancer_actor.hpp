// The interface of the REBALANCER actor.
#pragma once

#include <cstdint>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/rebalancer_messages.hpp"

namespace troupe {

/// The REBALANCER interface.
using rebalancer_actor = caf::typed_actor<
    // An operator's command. Answers once it is planned, with the change (for a dry run: the possible
    // change), which then continues by itself. Fails with ec::bad_request (nonsense, or no room) and
    // ec::not_ready (no placement yet, or another change is under way); the text says what to do.
    caf::replies_to<placement_command>::with<placement_change>,
    // Its current activity.
    caf::replies_to<status_atom>::with<rebalancer_status>,
    // Time to check whether anything needs to be done (local only).
    caf::reacts_to<caf::tick_atom>>;

} // namespace troupe
