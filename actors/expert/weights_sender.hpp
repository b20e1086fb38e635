// The WEIGHTS SENDER of an expert worker: sends the experts of its engine to other workers, chunk by chunk,
// while the engine computes with them.
//
// Chunks travel in the bulk lane (message_lanes.hpp), so that expert batches do not wait for them. A reader
// has one chunk in flight at a time, so that other bulk messages wait for at most `max_fetches` chunks. In a
// process the sender has a thread of its own: copies and checksums delay neither the transport's thread nor
// the host.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <caf/fwd.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/engine/engine.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/weights_messages.hpp"
#include "actors/protocol/weights_sender_actor.hpp"

namespace troupe {

struct expert_host_metrics; // expert_host_metrics.hpp

/// Name under which the sender of the worker `name` is published.
std::string weights_service(const std::string& name);

struct weights_sender_config {
  std::shared_ptr<expert_engine> engine;
  std::uint32_t max_fetches = defaults::max_weights_sent;
  std::uint32_t max_chunk_bytes = defaults::weights_chunk_bytes;
  bool own_thread = true;
  std::shared_ptr<expert_host_metrics> metrics; ///< may be null
};

/// An expert that the engine drops while it is sent is kept until its last byte is sent, or until its reader
/// has not asked for `defaults::weights_idle`. At most `max_fetches` experts are kept so.
weights_sender_actor spawn_weights_sender(caf::actor_system& system, weights_sender_config config);

} // namespace troupe
