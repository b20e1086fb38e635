// The HISTORY WRITER: writes the activation history to disk, so that the history actor never waits for it.
#pragma once

#include <functional>
#include <memory>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/history/history_store.hpp"

namespace troupe {

using stored_history_ptr = std::shared_ptr<const stored_history>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stored_history_ptr)

namespace troupe {

/// The HISTORY WRITER interface, local only. Fails with ec::engine_failed (the text has file and reason) and
/// ec::stale_term (a successor owns the file).
using history_writer_actor = caf::typed_actor<
    // Saves this history durably.
    caf::replies_to<caf::put_atom, stored_history_ptr>::with<void>,
    // Sets the file aside: it is of another model.
    caf::replies_to<caf::delete_atom>::with<void>>;

/// Runs on a thread of its own, except under a test scheduler.
/// @param is_deposed  whether another scheduler has taken over; called on that thread before the file is
/// changed; may be empty, and may throw
history_writer_actor spawn_history_writer(caf::actor_system& system, history_store store,
                                          std::function<bool()> is_deposed);

} // namespace troupe
