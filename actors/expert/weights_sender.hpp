// The WEIGHTS SENDER of an expert worker: gives the experts that its engine holds to other workers, piece by
// piece, while the engine computes with them.
//
// Pieces travel in the bulk lane (message_lanes.hpp), where no expert batch waits behind them, and a reader
// has one piece on its way at a time, so that other bulk waits for no more than one of each of `max_fetches`.
// In a process the sender has a thread of its own: copying and checksums hold up neither the transport's
// thread nor the host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <caf/fwd.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/defaults.hpp"
#include "actors/engine/engine.hpp"
#include "actors/expert/weights_messages.hpp"

namespace troupe {

struct expert_host_metrics; // expert_host_metrics.hpp

/// The WEIGHTS SENDER interface.
using weights_sender_actor = caf::typed_actor<
    // A piece of an expert that is loaded here. Fails with ec::incompatible for another model or numerics
    // class, ec::not_hosted for an expert that is not loaded (any more), ec::overloaded while as many are
    // being sent as may be, ec::bad_request for bytes that the expert does not have.
    caf::replies_to<weights_read>::with<weights_chunk>,
    // Forgets readers that ask no more (local only).
    caf::reacts_to<caf::tick_atom>>;

/// What the sender of the worker `name` is published as.
std::string weights_service(const std::string& name);

struct weights_sender_config {
  std::shared_ptr<expert_engine> engine;
  uint32_t max_fetches = defaults::max_weights_sent;
  uint32_t max_chunk_bytes = defaults::weights_chunk_bytes;
  bool own_thread = true;
  std::shared_ptr<expert_host_metrics> metrics; ///< may be null
};

/// An expert that is dropped while it is being sent is kept until its last byte is handed over, or until its
/// reader has not asked for `defaults::weights_idle`: so at most `max_fetches` of them.
weights_sender_actor spawn_weights_sender(caf::actor_system& system, weights_sender_config config);

} // namespace troupe
