// What the scheduler process exposes.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "actors/scheduler/scheduler_metrics.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Mean load over maximal load of the workers, averaged over the layers: 1 is perfect. Every expert counts
/// the same and splits evenly among its replicas. 0 while some expert has no host.
double balancedness(const placement& experts);

/// The scheduler's reports as metric families; the list is in README.md. Events go to `log`.
class scheduler_families final : public scheduler_metrics {
 public:
  using event_log = std::function<void(const char* name, const std::string& text)>;

  /// @param log, requests  may be empty
  explicit scheduler_families(std::shared_ptr<registry> families, event_log log = {},
                              request_events requests = {});

  void on_requests(size_t num_queued, size_t num_placed) override;
  void on_admitted(std::chrono::nanoseconds waited) override;
  void on_refused(ec code) override;
  void on_published(const placement& experts, bool ready) override;
  void on_fenced(fence_reason reason) override;
  void on_event(const char* name, const std::string& text) override;
  void on_request(const request_event& step) override;

 private:
  std::shared_ptr<registry> families_;
  event_log log_;
  request_events requests_;
  prometheus::Gauge& waiting_;
  prometheus::Gauge& placed_;
  prometheus::Gauge& epoch_;
  prometheus::Gauge& term_;
  prometheus::Gauge& ready_;
  prometheus::Gauge& balancedness_;
  prometheus::Histogram& queue_seconds_;
};

} // namespace troupe::metrics
