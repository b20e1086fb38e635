// What an attention worker reports of itself, for whoever keeps metrics.
#pragma once

#include <cstdint>

#include "actors/attention/generation_messages.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/error.hpp"
#include "actors/request_context.hpp"

namespace troupe {

/// A listener; called on the actor's thread, so it counts and returns. Every member has an empty default.
struct attention_metrics {
  /// One micro-batch from its start to its samples.
  struct iteration {
    uint32_t sequences = 0;
    uint32_t rows = 0;
    uint32_t in_flight = 1;    ///< micro-batches, this one included
    uint64_t attention_ns = 0; ///< computing
    uint64_t waiting_ns = 0;   ///< for expert batches
    uint64_t expert_ns = 0;    ///< of that, computing on the slowest host of each layer
  };

  /// The state between two iterations.
  struct level {
    uint64_t running = 0;
    uint64_t waiting = 0;
    uint64_t kv_blocks_used = 0;
    uint64_t kv_blocks = 0;
  };

  /// What does not change.
  struct bounds {
    uint32_t max_num_seqs = 0;
    uint64_t kv_blocks = 0;
    uint64_t kv_tokens = 0; ///< that these blocks hold
  };

  virtual ~attention_metrics() = default;

  /// Once, before anything else.
  virtual void on_bounds(const bounds& /*most*/) {}

  /// At every renewal of the lease.
  virtual void on_engine(const engine_progress& /*engine*/) {}

  virtual void on_iteration(const iteration& /*done*/) {}

  virtual void on_level(const level& /*now*/) {}

  /// Known tokens whose keys were computed, and tokens that were sampled.
  virtual void on_tokens(uint32_t /*computed*/, uint32_t /*sampled*/) {}

  /// A sequence got its first seat. @param queue_ns  it has waited
  virtual void on_start(uint64_t /*queue_ns*/) {}

  virtual void on_finish(finish_reason /*reason*/) {}

  /// A sequence was given back with an error.
  virtual void on_failure(ec /*code*/) {}

  /// A step of one request.
  virtual void on_request(const request_event& /*step*/) {}

  /// A sequence lost its KV blocks. @param num_computed  tokens that are to be computed again
  virtual void on_preemption(uint32_t /*num_computed*/) {}

  /// An expert batch was answered. @param elapsed_ns  between sending it and its answer
  virtual void on_expert_batch(uint32_t /*layer*/, uint32_t /*num_rows*/, uint64_t /*elapsed_ns*/) {}

  /// An expert batch failed, and its rows go elsewhere. @param code  ec::none: the reason is not one of ours
  virtual void on_expert_retry(ec /*code*/) {}

  /// An expert batch waits too long, and its rows go to a replica as well.
  virtual void on_hedge() {}

  /// An expert batch waits too long, and is not hedged because hedges have had their share.
  virtual void on_hedge_refused() {}
};

} // namespace troupe
