// The EXPERT HOST: owns the weights of some (layer, expert) pairs and computes expert batches for anyone.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/status_messages.hpp"
#include "actors/defaults.hpp"
#include "actors/engine/completion_messages.hpp"
#include "actors/engine/engine.hpp"
#include "actors/expert/expert_messages.hpp"
#include "actors/expert/weights_fetcher.hpp"
#include "actors/expert/weights_messages.hpp"

namespace troupe {

struct expert_host_metrics; // expert_host_metrics.hpp

/// The EXPERT HOST interface.
using expert_host_actor = caf::typed_actor<
    // Computes the batch; rows of one layer from several batches share a step. Fails with ec::not_hosted when
    // one of the experts is not here, ec::overloaded when too many rows wait, ec::bad_request for a malformed
    // batch.
    caf::replies_to<expert_batch>::with<expert_result>,
    // Changes what is hosted; answers when it is so.
    caf::replies_to<host_order>::with<host_report>,
    // What the worker says of itself when it joins.
    caf::replies_to<caf::join_atom>::with<worker_hello>,
    // The load now.
    caf::replies_to<load_atom>::with<lease_renewal>,
    // What a member passes on to every worker. A host goes by its orders, and is sent none.
    caf::reacts_to<cluster_view>,
    // An engine step is complete (local only).
    caf::reacts_to<expert_step_ptr>,
    // A load is complete (local only).
    caf::reacts_to<expert_load_ptr>,
    // Lingered long enough for company (local only).
    caf::reacts_to<linger_atom>,
    // Counters for status pages.
    caf::replies_to<status_atom>::with<expert_host_status>>;

struct expert_host_config {
  worker_address address;
  uint64_t expert_memory_bytes = 0;                            ///< 0: as much as needed
  uint32_t max_queued_rows = defaults::max_queued_expert_rows; ///< beyond: ec::overloaded
  std::chrono::microseconds linger{0};                         ///< how long a lone batch may wait for company
  uint32_t max_steps_in_flight = 1; ///< 2 hides the way to the engine, and merges less
  std::shared_ptr<expert_engine> engine;
  weight_origin weights = weight_origin::files; ///< where experts come from
  weights_fetcher_actor fetcher;                ///< null where they come from files
  std::shared_ptr<expert_host_metrics> metrics; ///< may be null
};

expert_host_actor spawn_expert_host(caf::actor_system& system, expert_host_config config);

} // namespace troupe
