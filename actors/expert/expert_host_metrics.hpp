// Listener for what an expert host reports about itself; implemented by the metrics of a process.
#pragma once

#include <cstdint>
#include <span>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/error.hpp"

namespace troupe {

/// Outcome of an attempt to fetch one expert from one worker.
enum class fetch_outcome : std::uint8_t {
  fetched,
  refused, ///< the worker does not have the expert, or has another model or layout
  busy,    ///< the worker already sends as many experts as it may
  lost,    ///< the worker died, could not be reached or did not answer
  damaged, ///< the bytes that came are not those that were sent
};

/// "fetched", "refused", "busy", "lost" or "damaged".
const char* name_of(fetch_outcome outcome);

/// A listener; called on the actor's thread, so it counts and returns. Every member has an empty default.
struct expert_host_metrics {
  virtual ~expert_host_metrics() = default;

  /// Called once, before all others: bounds of the queue and of the weights. @param memory_bytes  0: no limit
  virtual void on_bounds(std::uint64_t /*max_queued_rows*/, std::uint64_t /*memory_bytes*/) {}

  /// At every renewal of the lease.
  virtual void on_engine(const engine_progress& /*engine*/) {}

  /// A batch was answered with outputs. @param queue_ns  between arrival and the start of its step
  virtual void on_batch(std::uint32_t /*layer*/, std::uint32_t /*num_rows*/, std::uint64_t /*queue_ns*/,
                        std::uint64_t /*compute_ns*/) {}

  /// A step was computed. @param expert_rows  [experts of the layer] rows of each
  virtual void on_step(std::uint32_t /*layer*/, std::uint32_t /*num_batches*/,
                       std::span<const std::uint64_t> /*expert_rows*/, std::uint64_t /*compute_ns*/) {}

  /// A batch was refused or failed.
  virtual void on_refusal(ec /*code*/) {}

  /// The number of waiting (row, expert) pairs has changed.
  virtual void on_queue(std::uint64_t /*queued_rows*/) {}

  /// An attempt to fetch an expert from another worker has ended.
  virtual void on_fetch(fetch_outcome /*outcome*/) {}

  /// A chunk of weights was sent to another worker. Called by the weights sender, on its thread.
  virtual void on_weights_sent(std::uint64_t /*num_bytes*/) {}

  /// A chunk of weights came from another worker. Called by the weights fetcher, on its thread, as on_fetch()
  /// is.
  virtual void on_weights_received(std::uint64_t /*num_bytes*/) {}

  /// The loaded experts have changed. @param memory_bytes  memory that they take, counted as for
  /// `expert_memory_bytes` of the config
  virtual void on_hosted(std::uint64_t /*num_experts*/, std::uint64_t /*memory_bytes*/) {}
};

} // namespace troupe
