// The ATTENTION WORKER: continuous batching over the attention half of the model. Each micro-batch is a small
// state machine that advances when its expert batches are answered; there is no barrier between
// micro-batches.
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

#include "actors/engine/completion_messages.hpp"
#include "actors/engine/engine.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/attention_worker_actor.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/directory_actor.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/history_messages.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/protocol/view_messages.hpp"

namespace troupe {

struct attention_metrics; // attention_metrics.hpp

/// The interface within its own process.
using local_attention_worker_actor = attention_worker_actor::extend<
    // Counts of the experts used since the start, for the activation reporter.
    caf::replies_to<caf::get_atom>::with<activation_counts_ptr>,
    // An engine step is complete.
    caf::reacts_to<attention_done_ptr>,
    // Look again for late expert batches, and for hosts of parked rows.
    caf::reacts_to<caf::tick_atom>>;

struct attention_worker_config {
  worker_address address;
  std::uint32_t max_num_seqs = defaults::max_num_seqs;
  std::uint32_t max_num_batched_tokens = defaults::max_num_batched_tokens;
  std::uint32_t max_waiting =
      defaults::max_waiting_seqs;      ///< sequences that wait, without the running; beyond: ec::overloaded
  std::uint32_t max_model_len = 0;     ///< 0: the model's own; never more than the KV budget holds
  std::uint32_t max_micro_batches = 1; ///< in flight; see micro_batch_policy.hpp
  std::uint32_t min_micro_batches = 1; ///< equal to the maximum: a fixed number
  bool prefix_caching = true;          ///< see kv_store; false: only choices of a request share blocks
  directory_actor directory;           ///< finds expert hosts
  std::shared_ptr<attention_engine> engine;
  std::shared_ptr<attention_metrics> metrics; ///< may be null
};

local_attention_worker_actor spawn_attention_worker(caf::actor_system& system,
                                                    attention_worker_config config);

} // namespace troupe
