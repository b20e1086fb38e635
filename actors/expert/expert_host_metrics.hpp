// What an expert host reports of itself, for whoever keeps metrics.
#pragma once

#include <cstdint>
#include <span>

#include "actors/error.hpp"

namespace troupe {

/// A listener; called on the actor's thread, so it counts and returns. Every member has an empty default.
struct expert_host_metrics {
  virtual ~expert_host_metrics() = default;

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

  /// The hosted experts have changed.
  virtual void on_hosted(uint64_t /*num_experts*/) {}
};

} // namespace troupe
