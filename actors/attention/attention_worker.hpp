// The ATTENTION WORKER: continuous batching over the attention half of the model. Each micro-batch is a small
// state machine that advances when its expert batches are answered; nothing is a barrier.
//
//   session ──generation_request──► attention worker ──expert_batch──► expert hosts
//   session ◄──token_update──────── attention worker ◄─expert_result── expert hosts
//                                     │    ▲
//                                     ▼    │ steps
//                                     engine
#pragma once

#include <cstdint>
#include <memory>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/attention/generation_messages.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/cluster/status_messages.hpp"
#include "actors/cluster/view_messages.hpp"
#include "actors/defaults.hpp"
#include "actors/engine/completion_messages.hpp"
#include "actors/engine/engine.hpp"
#include "actors/history/history_messages.hpp"

namespace troupe {

struct attention_metrics; // attention_metrics.hpp

/// The ATTENTION WORKER interface.
using attention_worker_actor = caf::typed_actor<
    // Generates; tokens go to the sender (a session) as token_update. A sequence that cannot run is answered
    // with sequence_failed. A newer attempt of a known sequence replaces the older one.
    caf::reacts_to<generation_request>,
    // The sequence is no longer wanted: it leaves before the next iteration and its KV blocks are free.
    caf::reacts_to<cancel_atom, sequence_id, uint32_t /* attempt */>,
    // Workers and placement changed.
    caf::reacts_to<cluster_view>,
    // What the worker says of itself when it joins.
    caf::replies_to<caf::join_atom>::with<worker_hello>,
    // The load now.
    caf::replies_to<load_atom>::with<lease_renewal>,
    // Which experts it has used since it started (local only; for its activation reporter).
    caf::replies_to<caf::get_atom>::with<activation_counts_ptr>,
    // An engine step is complete (local only).
    caf::reacts_to<attention_step_ptr>,
    // Look again at batches that wait too long or have nowhere to go (local only).
    caf::reacts_to<caf::tick_atom>,
    // Counters for status pages.
    caf::replies_to<status_atom>::with<attention_status>>;

struct attention_worker_config {
  worker_address address;
  uint32_t max_num_seqs = defaults::max_num_seqs;
  uint32_t max_num_batched_tokens = defaults::max_num_batched_tokens;
  uint32_t max_waiting =
      defaults::max_waiting_seqs; ///< sequences, beside the running; beyond: ec::overloaded
  uint32_t max_model_len = 0;     ///< 0: the model's own; never more than the KV budget holds
  uint32_t max_micro_batches = 1; ///< in flight at once; see micro_batch_policy.hpp
  uint32_t min_micro_batches = 1; ///< the same as the maximum: a fixed number
  directory_actor directory;      ///< finds expert hosts
  std::shared_ptr<attention_engine> engine;
  std::shared_ptr<attention_metrics> metrics; ///< may be null
};

attention_worker_actor spawn_attention_worker(caf::actor_system& system, attention_worker_config config);

} // namespace troupe
