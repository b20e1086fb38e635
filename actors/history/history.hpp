// The HISTORY: which experts the cluster's tokens have chosen, recently and over time. An actor of its own
// beside the scheduler, so that neither liveness nor placement waits for it.
//
//    activation reporter ──activation_report──► history ──► history writer ──► disk
//    activation reporter ◄─activation_receipt── history
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/history/activation_history.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/history_actor.hpp"
#include "actors/protocol/history_messages.hpp"

namespace troupe {

struct history_config {
  std::string state_dir{}; ///< where it is saved across restarts; empty: not saved
  /// The initial content for a cluster without a history; called at most once, by spawn_history. May be
  /// empty, and may throw.
  std::function<history_snapshot()> seed{};
  activation_history::limits limits{};
  /// Whether another scheduler has taken over the state directory, and so owns the file there. Called before
  /// each write, not on the actor's thread; may be empty, and may throw.
  std::function<bool()> is_deposed{};
  /// Called once for each of "history" (its initial content), "history-damaged", "history-unused" (it is of
  /// another model), "history-unsaved". Called on the actor's thread. May be empty.
  std::function<void(const char* event, const std::string& text)> on_event{};
};

/// Starts from the state directory; if that has no history, from the seed or empty. Reads files, so it
/// blocks. A damaged file is reported and set aside.
/// @throws std::runtime_error  the state directory cannot be used, or the seed is invalid
history_actor spawn_history(caf::actor_system& system, history_config config);

} // namespace troupe
