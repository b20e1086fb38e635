// The metrics of an expert process.
#pragma once

#include <memory>

#include "actors/expert/expert_host_metrics.hpp"
#include "services/metrics/engine_gauges.hpp"
#include "services/metrics/expert_row_counts.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Turns the expert host's reports into metric families. Called on the actor's thread.
class expert_families final : public expert_host_metrics {
 public:
  explicit expert_families(std::shared_ptr<registry> families);

  void on_bounds(std::uint64_t max_queued_rows, std::uint64_t memory_bytes) override;
  void on_engine(const engine_progress& engine) override;
  void on_batch(std::uint32_t layer, std::uint32_t num_rows, std::uint64_t queue_ns,
                std::uint64_t compute_ns) override;
  void on_step(std::uint32_t layer, std::uint32_t num_batches, std::span<const std::uint64_t> expert_rows,
               std::uint64_t compute_ns) override;
  void on_refusal(ec code) override;
  void on_queue(std::uint64_t queued_rows) override;
  void on_hosted(std::uint64_t num_experts, std::uint64_t memory_bytes) override;
  void on_fetch(fetch_outcome outcome) override;
  void on_weights_sent(std::uint64_t num_bytes) override;
  void on_weights_received(std::uint64_t num_bytes) override;

 private:
  std::shared_ptr<registry> families_;
  prometheus::Gauge& queue_rows_;
  prometheus::Gauge& queue_rows_limit_;
  prometheus::Gauge& hosted_;
  prometheus::Gauge& memory_;
  prometheus::Histogram& batch_seconds_;
  prometheus::Histogram& step_seconds_;
  prometheus::Counter& steps_;
  prometheus::Counter& batches_;
  prometheus::Counter& weights_sent_;
  prometheus::Counter& weights_received_;
  engine_gauges engine_;
  std::shared_ptr<expert_row_counts> rows_; ///< shared with the reader that shows them
};

} // namespace troupe::metrics
