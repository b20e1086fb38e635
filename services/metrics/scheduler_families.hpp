// The metrics of the scheduler process.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/scheduler/scheduler_metrics.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Mean load over maximal load of the workers, averaged over the layers: 1 is perfect. All experts count
/// equally, and their replicas share evenly. 0 while an expert has no host.
double balancedness(const placement& experts);

/// Turns the scheduler's reports into metric families. Events go to `log`.
class scheduler_families final : public scheduler_metrics {
 public:
  using event_log = std::function<void(const char* name, const std::string& text)>;

  /// @param log, requests  may be empty
  explicit scheduler_families(std::shared_ptr<registry> families, event_log log = {},
                              request_events requests = {});

  void on_bounds(std::uint64_t max_queued_bytes, std::size_t max_queued) override;
  void on_requests(std::size_t num_queued, std::uint64_t queued_bytes, std::size_t num_placed) override;
  void on_memory(const memory& now) override;
  void on_workers(const worker_counts& now) override;
  void on_admitted(std::chrono::nanoseconds waited) override;
  void on_refused(ec code) override;
  void on_published(const placement& experts, bool ready) override;
  void on_room(std::size_t num_without) override;
  void on_fenced(fence_reason reason) override;
  void on_event(const char* name, const std::string& text) override;
  void on_request(const request_event& step) override;

 private:
  std::shared_ptr<registry> families_;
  event_log log_;
  request_events requests_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& placed_;
  prometheus::Gauge& queued_bytes_;
  prometheus::Gauge& queued_bytes_limit_;
  prometheus::Gauge& kv_reserved_;
  prometheus::Gauge& kv_used_;
  prometheus::Gauge& kv_total_;
  prometheus::Gauge& expected_answer_;
  prometheus::Gauge& epoch_;
  prometheus::Gauge& term_;
  prometheus::Gauge& ready_;
  prometheus::Gauge& balancedness_;
  prometheus::Gauge& experts_placed_;
  prometheus::Gauge& experts_without_host_;
  prometheus::Gauge& experts_without_room_;
  prometheus::Gauge& expert_copies_;
  prometheus::Histogram& queue_seconds_;
};

} // namespace troupe::metrics
