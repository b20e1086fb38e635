#include "services/metrics/expert_families.hpp"

#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

namespace troupe::metrics {

expert_families::expert_families(std::shared_ptr<registry> families)
    : families_(std::move(families)),
      queue_rows_(families_->gauge("expert_queue_rows")),
      queue_rows_limit_(families_->gauge("expert_queue_rows_limit")),
      hosted_(families_->gauge("experts_hosted")),
      memory_(families_->gauge("expert_memory_bytes")),
      batch_seconds_(families_->histogram("expert_batch_seconds")),
      step_seconds_(families_->histogram("expert_step_seconds")),
      steps_(families_->counter("expert_steps_total")),
      batches_(families_->counter("expert_batches_total")),
      weights_sent_(families_->counter("expert_weights_sent_bytes_total")),
      weights_received_(families_->counter("expert_weights_received_bytes_total")),
      engine_(*families_, "expert"),
      rows_(std::make_shared<expert_row_counts>()) {
  families_->start("expert");
  families_->read_before_text([rows = rows_, families = families_.get()] { rows->show(*families); });
}

void expert_families::on_bounds(std::uint64_t max_queued_rows, std::uint64_t memory_bytes) {
  queue_rows_limit_.Set(static_cast<double>(max_queued_rows));
  if (memory_bytes > 0)
    families_->gauge("expert_memory_limit_bytes").Set(static_cast<double>(memory_bytes));
}

void expert_families::on_engine(const engine_progress& engine) {
  engine_.set(engine);
}

void expert_families::on_batch(std::uint32_t /*layer*/, std::uint32_t /*num_rows*/, std::uint64_t queue_ns,
                               std::uint64_t compute_ns) {
  batches_.Increment();
  batch_seconds_.Observe(seconds_of(queue_ns + compute_ns));
}

void expert_families::on_step(std::uint32_t layer, std::uint32_t /*num_batches*/,
                              std::span<const std::uint64_t> expert_rows, std::uint64_t compute_ns) {
  steps_.Increment();
  step_seconds_.Observe(seconds_of(compute_ns));
  rows_->add(layer, expert_rows);
}

void expert_families::on_refusal(ec code) {
  families_->counter("expert_refusals_total", {{"reason", to_string(code)}}).Increment();
}

void expert_families::on_queue(std::uint64_t queued_rows) {
  queue_rows_.Set(static_cast<double>(queued_rows));
}

void expert_families::on_fetch(fetch_outcome outcome) {
  families_->counter("expert_fetches_total", {{"outcome", name_of(outcome)}}).Increment();
}

void expert_families::on_weights_sent(std::uint64_t num_bytes) {
  weights_sent_.Increment(static_cast<double>(num_bytes));
}

void expert_families::on_weights_received(std::uint64_t num_bytes) {
  weights_received_.Increment(static_cast<double>(num_bytes));
}

void expert_families::on_hosted(std::uint64_t num_experts, std::uint64_t memory_bytes) {
  hosted_.Set(static_cast<double>(num_experts));
  memory_.Set(static_cast<double>(memory_bytes));
}

} // namespace troupe::metrics
