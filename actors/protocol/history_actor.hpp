// The interface of the HISTORY actor.
#pragma once

#include <cstdint>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/history_messages.hpp"

namespace troupe {

/// The HISTORY interface.
using history_actor = caf::typed_actor<
    // Counts the windows that are new. Fails with ec::shutting_down, ec::incompatible (another model) and
    // ec::bad_request (unreadable windows); then nothing is counted.
    caf::replies_to<activation_report>::with<activation_receipt>,
    // The history, with at most N of the most recent windows.
    caf::replies_to<history_atom, std::uint32_t>::with<history_snapshot>,
    // Time to save the counts (local only).
    caf::reacts_to<caf::tick_atom>>;

} // namespace troupe
