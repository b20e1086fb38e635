#include "services/metrics/rebalancer_families.hpp"

#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>

namespace troupe::metrics {

rebalancer_families::rebalancer_families(std::shared_ptr<registry> families, event_log log)
    : families_(std::move(families)),
      log_(std::move(log)),
      imbalance_(families_->gauge("placement_imbalance")),
      max_share_(families_->gauge("placement_max_share")),
      predicted_gain_(families_->gauge("placement_predicted_gain")),
      moves_left_(families_->gauge("placement_moves_left")),
      plans_carried_out_(families_->counter("placement_plans_total", {{"result", "carried_out"}})),
      plans_dropped_(families_->counter("placement_plans_total", {{"result", "dropped"}})),
      moves_done_(families_->counter("placement_moves_total", {{"result", "done"}})),
      moves_given_up_(families_->counter("placement_moves_total", {{"result", "given_up"}})),
      moved_bytes_(families_->counter("placement_moved_bytes_total")) {}

void rebalancer_families::on_look(double imbalance, double max_share) {
  imbalance_.Set(imbalance);
  max_share_.Set(max_share);
}

void rebalancer_families::on_wanted_workers(std::uint32_t count) {
  // Absent until known: an autoscaler would take a zero for the number.
  families_->gauge("placement_wanted_workers").Set(count);
}

void rebalancer_families::on_plan(bool is_carried_out, double predicted_gain) {
  (is_carried_out ? plans_carried_out_ : plans_dropped_).Increment();
  predicted_gain_.Set(predicted_gain);
}

void rebalancer_families::on_moves_left(std::uint64_t count) {
  moves_left_.Set(static_cast<double>(count));
}

void rebalancer_families::on_move(bool is_done, std::uint64_t bytes) {
  (is_done ? moves_done_ : moves_given_up_).Increment();
  moved_bytes_.Increment(static_cast<double>(bytes));
}

void rebalancer_families::on_event(const char* name, const std::string& text) {
  if (log_)
    log_(name, text);
}

} // namespace troupe::metrics
