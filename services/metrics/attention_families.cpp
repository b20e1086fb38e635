#include "services/metrics/attention_families.hpp"

#include <utility>

#include "services/metrics/bucket_edges.hpp"

namespace troupe::metrics {

namespace {

constexpr const char* retries_name = "expert_retries_total";
constexpr const char* retries_help =
    "Expert batches whose rows went to another host, by what was wrong with the first";
constexpr const char* failures_name = "sequence_failures_total";
constexpr const char* failures_help = "Sequences given back to their session, by reason";

double seconds_of(uint64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

} // namespace

attention_families::attention_families(std::shared_ptr<registry> families, request_events requests)
    : families_(std::move(families)),
      requests_(std::move(requests)),
      running_(families_->gauge("num_requests_running", "Sequences in the running batch")),
      waiting_(families_->gauge("num_sequences_waiting",
                                "Assigned sequences that wait for a seat or for KV blocks")),
      kv_usage_(families_->gauge("kv_cache_usage_perc", "Share of the KV blocks in use; 1 is all")),
      micro_batches_(
          families_->gauge("micro_batches_in_flight", "Micro-batches in flight at the last iteration")),
      preemptions_(families_->counter("num_preemptions_total",
                                      "Sequences whose KV blocks were taken, to be recomputed")),
      computed_tokens_(families_->counter("computed_tokens_total", "Known tokens whose keys were computed")),
      sampled_tokens_(families_->counter("sampled_tokens_total", "Tokens sampled")),
      hedges_(
          families_->counter("expert_hedges_total",
                             "Expert batches sent to a replica as well, because the first host was slow")),
      seat_wait_seconds_(families_->histogram("sequence_queue_time_seconds",
                                              "From a sequence's arrival at its worker to its first seat",
                                              request_seconds)),
      iteration_rows_(families_->histogram("iteration_tokens", "Rows of a micro-batch", token_counts)),
      iteration_seconds_(families_->histogram(
          "iteration_seconds", "A micro-batch from its start to its samples", expert_batch_seconds)),
      round_trip_seconds_(families_->histogram(
          "expert_round_trip_seconds", "From sending an expert batch to its answer", expert_batch_seconds)),
      attention_seconds_(families_->counter("iteration_attention_seconds_total",
                                            "Time that micro-batches spent computing attention")),
      expert_wait_seconds_(families_->counter("iteration_expert_wait_seconds_total",
                                              "Time that micro-batches spent waiting for experts")) {
  families_->counter(retries_name, retries_help, {{"reason", to_string(ec::peer_down)}});
}

void attention_families::on_iteration(const iteration& done) {
  micro_batches_.Set(done.in_flight);
  iteration_rows_.Observe(done.rows);
  iteration_seconds_.Observe(seconds_of(done.attention_ns + done.waiting_ns));
  attention_seconds_.Increment(seconds_of(done.attention_ns));
  expert_wait_seconds_.Increment(seconds_of(done.waiting_ns));
}

void attention_families::on_level(const level& now) {
  running_.Set(static_cast<double>(now.running));
  waiting_.Set(static_cast<double>(now.waiting));
  kv_usage_.Set(
      now.kv_blocks == 0 ? 0 : static_cast<double>(now.kv_blocks_used) / static_cast<double>(now.kv_blocks));
}

void attention_families::on_tokens(uint32_t computed, uint32_t sampled) {
  computed_tokens_.Increment(computed);
  sampled_tokens_.Increment(sampled);
}

void attention_families::on_start(uint64_t queue_ns) {
  seat_wait_seconds_.Observe(seconds_of(queue_ns));
}

void attention_families::on_failure(ec code) {
  families_->counter(failures_name, failures_help, {{"reason", to_string(code)}}).Increment();
}

void attention_families::on_preemption() {
  preemptions_.Increment();
}

void attention_families::on_expert_batch(uint32_t /*layer*/, uint32_t /*num_rows*/, uint64_t elapsed_ns) {
  round_trip_seconds_.Observe(seconds_of(elapsed_ns));
}

void attention_families::on_expert_retry(ec code) {
  families_->counter(retries_name, retries_help, {{"reason", code == ec::none ? "other" : to_string(code)}})
      .Increment();
}

void attention_families::on_hedge() {
  hedges_.Increment();
}

void attention_families::on_request(const request_event& step) {
  if (requests_)
    requests_(step);
}

} // namespace troupe::metrics
