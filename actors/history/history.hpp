// The HISTORY: which experts the cluster's tokens have chosen, of late and over time. An actor of its own
// beside the scheduler, so that neither liveness nor placement waits for it.
//
//   activation reporter ──activation_report──► history ──► history writer ──► disk
//   activation reporter ◄─activation_receipt── history
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/history/activation_history.hpp"
#include "actors/history/history_messages.hpp"

namespace troupe {

/// The HISTORY interface.
using history_actor = caf::typed_actor<
    // Counts windows that are new. Fails with ec::shutting_down, ec::incompatible (another model) and
    // ec::bad_request (windows that cannot be read); then nothing is counted.
    caf::replies_to<activation_report>::with<activation_receipt>,
    // What is known, with at most so many of the most recent windows.
    caf::replies_to<history_atom, uint32_t>::with<history_snapshot>,
    // It is time to write what has been counted (local only).
    caf::reacts_to<caf::tick_atom>>;

struct history_config {
  std::string state_dir{}; ///< where it is kept across restarts; empty: it ends with the process
  /// What a cluster without a history of its own begins with; called at most once, by spawn_history. May be
  /// empty, and may throw.
  std::function<history_snapshot()> seed{};
  activation_history::limits limits{};
  /// Whether another scheduler has taken the state directory over, so that the file there is its own. Asked
  /// before each write, not on the actor's thread; may be empty, and may throw.
  std::function<bool()> is_deposed{};
  /// Told once of each: "history" (what it begins with), "history-damaged", "history-unused" (it is of
  /// another model), "history-unsaved". Called on the actor's thread. May be empty.
  std::function<void(const char* event, const std::string& text)> on_event{};
};

/// Starts from the state directory, or from the seed where there is nothing, or empty. Reads files, so it
/// blocks. A damaged file is told of and set aside.
/// @errors throws `std::runtime_error` when the state directory cannot be used or the seed makes no sense
history_actor spawn_history(caf::actor_system& system, history_config config);

} // namespace troupe
