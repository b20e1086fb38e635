#include "services/metrics/expert_families.hpp"

#include <string>
#include <utility>

#include "services/metrics/bucket_edges.hpp"

namespace troupe::metrics {

namespace {

double seconds_of(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

} // namespace

expert_families::expert_families(std::shared_ptr<registry> families)
    : families_(std::move(families)),
      queue_rows_(families_->gauge("expert_queue_rows", "(row, expert) pairs that wait")),
      hosted_(families_->gauge("experts_hosted", "(layer, expert) pairs whose weights are held")),
      batch_seconds_(families_->histogram(
          "expert_batch_seconds", "An expert batch from its arrival to its answer", expert_batch_seconds)),
      step_seconds_(families_->histogram("expert_step_seconds", "One grouped GEMM over merged batches",
                                         expert_batch_seconds)),
      steps_(families_->counter("expert_steps_total", "Grouped GEMMs computed")),
      batches_(families_->counter("expert_batches_total", "Expert batches answered with rows")),
      weights_sent_(families_->counter("expert_weights_sent_bytes_total",
                                       "Bytes of experts' weights given to other expert workers")),
      weights_received_(families_->counter("expert_weights_received_bytes_total",
                                           "Bytes of experts' weights that came from other expert workers")) {
}

void expert_families::on_batch(uint32_t /*layer*/, uint32_t /*num_rows*/, uint64_t queue_ns,
                               uint64_t compute_ns) {
  batches_.Increment();
  batch_seconds_.Observe(seconds_of(queue_ns + compute_ns));
}

void expert_families::on_step(uint32_t layer, uint32_t /*num_batches*/, std::span<const uint64_t> expert_rows,
                              uint64_t compute_ns) {
  steps_.Increment();
  step_seconds_.Observe(seconds_of(compute_ns));
  for (size_t expert = 0; expert < expert_rows.size(); ++expert)
    if (expert_rows[expert] > 0)
      rows_of(layer, expert).Increment(static_cast<double>(expert_rows[expert]));
}

prometheus::Counter& expert_families::rows_of(size_t layer, size_t expert) {
  // Finding a series by its labels hashes strings: once for each is enough.
  if (rows_.size() <= layer)
    rows_.resize(layer + 1);
  auto& of_layer = rows_[layer];
  if (of_layer.size() <= expert)
    of_layer.resize(expert + 1, nullptr);
  if (of_layer[expert] == nullptr)
    of_layer[expert] =
        &families_->counter("expert_rows_total", "Rows computed by each expert",
                            {{"layer", std::to_string(layer)}, {"expert", std::to_string(expert)}});
  return *of_layer[expert];
}

void expert_families::on_refusal(ec code) {
  families_
      ->counter("expert_refusals_total", "Expert batches refused or failed, by reason",
                {{"reason", to_string(code)}})
      .Increment();
}

void expert_families::on_queue(uint64_t queued_rows) {
  queue_rows_.Set(static_cast<double>(queued_rows));
}

void expert_families::on_fetch(fetch_outcome outcome) {
  families_
      ->counter("expert_fetches_total", "Attempts to get an expert from another worker, by how they ended",
                {{"outcome", name_of(outcome)}})
      .Increment();
}

void expert_families::on_weights_sent(uint64_t num_bytes) {
  weights_sent_.Increment(static_cast<double>(num_bytes));
}

void expert_families::on_weights_received(uint64_t num_bytes) {
  weights_received_.Increment(static_cast<double>(num_bytes));
}

void expert_families::on_hosted(uint64_t num_experts) {
  hosted_.Set(static_cast<double>(num_experts));
}

} // namespace troupe::metrics
