// The EXPERT HOST: holds the weights of some (layer, expert) pairs and computes expert batches for all
// attention workers.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/engine/completion_messages.hpp"
#include "actors/engine/engine.hpp"
#include "actors/expert/weights_fetcher.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/expert_host_actor.hpp"
#include "actors/protocol/expert_messages.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/protocol/weights_messages.hpp"

namespace troupe {

struct expert_host_metrics; // expert_host_metrics.hpp

/// The interface within its own process.
using local_expert_host_actor = expert_host_actor::extend<
    // An engine step is finished.
    caf::reacts_to<expert_step_ptr>,
    // A load is finished.
    caf::reacts_to<expert_load_ptr>,
    // A lone batch has waited long enough for others of its layer.
    caf::reacts_to<linger_atom>>;

struct expert_host_config {
  worker_address address;
  std::uint64_t expert_memory_bytes = 0;                            ///< 0: as much as needed
  std::uint32_t max_queued_rows = defaults::max_queued_expert_rows; ///< beyond: ec::overloaded
  std::chrono::microseconds linger{0};   ///< how long a lone batch waits for others of its layer
  std::uint32_t max_steps_in_flight = 1; ///< 2 hides the latency of the engine's queue, and merges less
  std::shared_ptr<expert_engine> engine;
  weight_origin weights = weight_origin::files; ///< source of experts
  std::string topology{};                       ///< as in expert_terms
  weights_fetcher_actor fetcher;                ///< null if experts come from files
  std::shared_ptr<expert_host_metrics> metrics; ///< may be null
};

expert_host_actor spawn_expert_host(caf::actor_system& system, expert_host_config config);

} // namespace troupe
