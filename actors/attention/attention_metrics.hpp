// Listener for what an attention worker reports about itself; implemented by the metrics of a process.
#pragma once

#include <cstdint>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/request_context.hpp"

namespace troupe {

/// A listener; called on the actor's thread, so it counts and returns. Every member has an empty default.
struct attention_metrics {
  /// One micro-batch from its start to its samples.
  struct iteration {
    std::uint32_t sequences = 0;
    std::uint32_t rows = 0;
    /// As vLLM counts an iteration: tokens sampled, and prompts whose first token this iteration gave.
    std::uint64_t tokens = 0;
    std::uint32_t in_flight = 1;    ///< micro-batches, this one included
    std::uint64_t attention_ns = 0; ///< computing
    std::uint64_t waiting_ns = 0;   ///< for expert batches
    std::uint64_t expert_ns = 0;    ///< of that, computing on the slowest host of each layer
  };

  /// Levels between two iterations.
  struct level {
    std::uint64_t running = 0;
    std::uint64_t waiting = 0;
    std::uint64_t kv_blocks_used = 0;
    std::uint64_t kv_blocks = 0;
    std::uint64_t kv_blocks_retained = 0; ///< not used, and kept for later prompts
  };

  /// Values that do not change.
  struct bounds {
    std::uint32_t max_num_seqs = 0;
    std::uint64_t kv_blocks = 0;
    std::uint64_t kv_tokens = 0; ///< capacity of these blocks
  };

  virtual ~attention_metrics() = default;

  /// Called once, before all others.
  virtual void on_bounds(const bounds& /*most*/) {}

  /// At every renewal of the lease.
  virtual void on_engine(const engine_progress& /*engine*/) {}

  virtual void on_iteration(const iteration& /*done*/) {}

  virtual void on_level(const level& /*now*/) {}

  /// Tokens prefilled or decoded (their keys and values computed), and tokens sampled.
  virtual void on_tokens(std::uint32_t /*computed*/, std::uint32_t /*sampled*/) {}

  /// A sequence started to run. @param queue_ns  time that it waited
  virtual void on_start(std::uint64_t /*queue_ns*/) {}

  /// A sequence started for the first time. @param num_known  tokens  @param num_cached  of them, tokens
  /// whose keys were known
  virtual void on_prefix(std::uint32_t /*num_known*/, std::uint32_t /*num_cached*/) {}

  virtual void on_finish(finish_reason /*reason*/) {}

  /// A sequence failed: its session got an error.
  virtual void on_failure(ec /*code*/) {}

  /// A step of one request.
  virtual void on_request(const request_event& /*step*/) {}

  /// A sequence lost its KV blocks. @param num_computed  tokens that must be computed again
  virtual void on_preemption(std::uint32_t /*num_computed*/) {}

  /// An expert batch was answered. @param elapsed_ns  between sending it and its answer
  virtual void on_expert_batch(std::uint32_t /*layer*/, std::uint32_t /*num_rows*/,
                               std::uint64_t /*elapsed_ns*/) {}

  /// An expert batch failed or is overdue, and its rows are sent again. @param code  ec::none: overdue, or an
  /// error without a code of ours
  virtual void on_expert_retry(ec /*code*/) {}

  /// A late expert batch was hedged: its rows were also sent to a replica.
  virtual void on_hedge() {}

  /// A late expert batch was not hedged, because the budget for hedges was used up.
  virtual void on_hedge_refused() {}
};

} // namespace troupe
