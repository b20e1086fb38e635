#include "services/metrics/rebalancer_families.hpp"

#include <utility>

namespace troupe::metrics {

namespace {

prometheus::Counter& plans(registry& families, const char* result) {
  return families.counter("placement_plans_total",
                          "Plans that the rebalancer made by itself, by what became of them",
                          {{"result", result}});
}

prometheus::Counter& moves(registry& families, const char* result) {
  return families.counter("placement_moves_total", "Experts whose change of hosts is over, by how it ended",
                          {{"result", result}});
}

} // namespace

rebalancer_families::rebalancer_families(std::shared_ptr<registry> families, event_log log)
    : families_(std::move(families)),
      log_(std::move(log)),
      imbalance_(families_->gauge(
          "placement_imbalance",
          "Expected time of the busiest expert workers of a step over that of an even load; 0: "
          "not known yet")),
      max_share_(families_->gauge(
          "placement_max_share",
          "Expected share of a layer's load on its busiest expert worker, averaged over layers")),
      gain_of_one_more_(families_->gauge("placement_gain_of_one_more_worker",
                                         "Share of a step's time that one more expert worker would save")),
      waste_of_one_(
          families_->gauge("placement_waste_of_one_worker", "Share of one expert worker that is not needed")),
      predicted_gain_(families_->gauge("placement_predicted_gain",
                                       "Share of a step's time that the last plan was expected to save")),
      moves_left_(families_->gauge("placement_moves_left",
                                   "Experts of the change under way that are not where they should be")),
      plans_carried_out_(plans(*families_, "carried_out")),
      plans_dropped_(plans(*families_, "dropped")),
      moves_done_(moves(*families_, "done")),
      moves_given_up_(moves(*families_, "given_up")),
      moved_bytes_(
          families_->counter("placement_moved_bytes_total", "Weights that were loaded for such changes")) {}

void rebalancer_families::on_look(double imbalance, double max_share) {
  imbalance_.Set(imbalance);
  max_share_.Set(max_share);
}

void rebalancer_families::on_growth(double gain_of_one_more, double waste_of_one) {
  gain_of_one_more_.Set(gain_of_one_more);
  waste_of_one_.Set(waste_of_one);
}

void rebalancer_families::on_plan(bool is_carried_out, double predicted_gain) {
  (is_carried_out ? plans_carried_out_ : plans_dropped_).Increment();
  predicted_gain_.Set(predicted_gain);
}

void rebalancer_families::on_moves_left(uint64_t count) {
  moves_left_.Set(static_cast<double>(count));
}

void rebalancer_families::on_move(bool is_done, uint64_t bytes) {
  (is_done ? moves_done_ : moves_given_up_).Increment();
  moved_bytes_.Increment(static_cast<double>(bytes));
}

void rebalancer_families::on_event(const char* name, const std::string& text) {
  if (log_)
    log_(name, text);
}

} // namespace troupe::metrics
