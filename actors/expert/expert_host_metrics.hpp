// What an expert host reports of itself, for whoever keeps metrics.
#pragma once

#include <cstdint>
#include <span>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/error.hpp"

namespace troupe {

/// How an attempt to get one expert from one worker has ended.
enum class fetch_outcome : uint8_t {
  fetched,
  refused, ///< it does not have the expert, or has another model or layout
  busy,    ///< it sends as many as it may
  lost,    ///< it died, could not be reached or said nothing
  damaged, ///< what came is not what was sent
};

/// "fetched", "refused", "busy", "lost" or "damaged".
const char* name_of(fetch_outcome outcome);

/// A listener; called on the actor's thread, so it counts and returns. Every member has an empty default.
struct expert_host_metrics {
  virtual ~expert_host_metrics() = default;

  /// Once, before anything else: what may wait, and what the weights may take. @param memory_bytes  0: no
  /// limit
  virtual void on_bounds(uint64_t /*max_queued_rows*/, uint64_t /*memory_bytes*/) {}

  /// At every renewal of the lease.
  virtual void on_engine(const engine_progress& /*engine*/) {}

  /// A batch is answered with rows. @param queue_ns  between arrival and the start of its step
  virtual void on_batch(uint32_t /*layer*/, uint32_t /*num_rows*/, uint64_t /*queue_ns*/,
                        uint64_t /*compute_ns*/) {}

  /// A step is computed. @param expert_rows  [experts of the layer] rows of each
  virtual void on_step(uint32_t /*layer*/, uint32_t /*num_batches*/,
                       std::span<const uint64_t> /*expert_rows*/, uint64_t /*compute_ns*/) {}

  /// A batch is refused or has failed.
  virtual void on_refusal(ec /*code*/) {}

  /// Whenever it changes: (row, expert) pairs that wait.
  virtual void on_queue(uint64_t /*queued_rows*/) {}

  /// A worker was asked for an expert's weights and has sent them, or not.
  virtual void on_fetch(fetch_outcome /*outcome*/) {}

  /// A piece of weights was handed to another worker. Called on another actor's thread than the rest.
  virtual void on_weights_sent(uint64_t /*num_bytes*/) {}

  /// A piece of weights has come from another worker. Likewise, and so is on_fetch().
  virtual void on_weights_received(uint64_t /*num_bytes*/) {}

  /// The hosted experts have changed. @param memory_bytes  that they take, as `expert_memory_bytes` of the
  /// config counts
  virtual void on_hosted(uint64_t /*num_experts*/, uint64_t /*memory_bytes*/) {}
};

} // namespace troupe
