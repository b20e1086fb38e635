// The rebalancer's metrics, in the scheduler's process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "actors/rebalancer/rebalancer_metrics.hpp"
#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Turns the rebalancer's reports into metric families; README.md lists them. Events go to `log`.
class rebalancer_families final : public rebalancer_metrics {
 public:
  using event_log = std::function<void(const char* name, const std::string& text)>;

  /// @param log  may be empty
  explicit rebalancer_families(std::shared_ptr<registry> families, event_log log = {});

  void on_look(double imbalance, double max_share) override;
  void on_wanted_workers(std::uint32_t count) override;
  void on_plan(bool is_carried_out, double predicted_gain) override;
  void on_moves_left(std::uint64_t count) override;
  void on_move(bool is_done, std::uint64_t bytes) override;
  void on_event(const char* name, const std::string& text) override;

 private:
  std::shared_ptr<registry> families_;
  event_log log_;
  prometheus::Gauge& imbalance_;
  prometheus::Gauge& max_share_;
  prometheus::Gauge& predicted_gain_;
  prometheus::Gauge& moves_left_;
  prometheus::Counter& plans_carried_out_;
  prometheus::Counter& plans_dropped_;
  prometheus::Counter& moves_done_;
  prometheus::Counter& moves_given_up_;
  prometheus::Counter& moved_bytes_;
};

} // namespace troupe::metrics
