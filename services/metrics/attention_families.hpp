// The metrics of an attention process.
#pragma once

#include <array>
#include <memory>

#include "actors/attention/attention_metrics.hpp"
#include "services/metrics/engine_gauges.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Turns the attention worker's reports into metric families.
class attention_families final : public attention_metrics {
 public:
  /// @param requests  receives the events of each request; may be empty
  explicit attention_families(std::shared_ptr<registry> families, request_events requests = {});

  void on_bounds(const bounds& most) override;
  void on_engine(const engine_progress& engine) override;
  void on_iteration(const iteration& done) override;
  void on_level(const level& now) override;
  void on_tokens(std::uint32_t computed, std::uint32_t sampled) override;
  void on_start(std::uint64_t queue_ns) override;
  void on_prefix(std::uint32_t num_known, std::uint32_t num_cached) override;
  void on_failure(ec code) override;
  void on_request(const request_event& step) override;
  void on_preemption(std::uint32_t num_computed) override;
  void on_expert_batch(std::uint32_t layer, std::uint32_t num_rows, std::uint64_t elapsed_ns) override;
  void on_expert_retry(ec code) override;
  void on_hedge() override;
  void on_hedge_refused() override;

 private:
  std::shared_ptr<registry> families_;
  request_events requests_;
  prometheus::Gauge& running_;
  prometheus::Gauge& running_limit_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& kv_usage_;
  prometheus::Gauge& kv_blocks_;
  prometheus::Gauge& kv_used_blocks_;
  prometheus::Gauge& kv_retained_blocks_;
  prometheus::Gauge& kv_capacity_;
  prometheus::Gauge& micro_batches_;
  prometheus::Counter& prefix_queries_;
  prometheus::Counter& prefix_hits_;
  prometheus::Counter& preemptions_;
  prometheus::Counter& preempted_tokens_;
  prometheus::Counter& computed_tokens_;
  prometheus::Counter& sampled_tokens_;
  prometheus::Counter& hedges_;
  prometheus::Counter& hedges_refused_;
  prometheus::Histogram& seat_wait_seconds_;
  prometheus::Histogram& iteration_tokens_;
  prometheus::Histogram& iteration_seconds_;
  prometheus::Histogram& round_trip_seconds_;
  prometheus::Counter& attention_seconds_;
  prometheus::Counter& expert_wait_seconds_;
  engine_gauges engine_;
};

} // namespace troupe::metrics
