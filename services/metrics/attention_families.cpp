#include "services/metrics/attention_families.hpp"

#include <string_view>
#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

#include "services/metrics/engine_gauges.hpp"

namespace troupe::metrics {

attention_families::attention_families(std::shared_ptr<registry> families, request_events requests)
    : families_(std::move(families)),
      requests_(std::move(requests)),
      running_(families_->gauge("num_requests_running")),
      running_limit_(families_->gauge("num_requests_running_limit")),
      waiting_(families_->gauge("num_sequences_waiting")),
      kv_usage_(families_->gauge("kv_cache_usage_perc")),
      kv_blocks_(families_->gauge("kv_cache_blocks")),
      kv_used_blocks_(families_->gauge("kv_cache_used_blocks")),
      kv_retained_blocks_(families_->gauge("kv_cache_retained_blocks")),
      kv_capacity_(families_->gauge("kv_cache_capacity_tokens")),
      micro_batches_(families_->gauge("micro_batches_in_flight")),
      prefix_queries_(families_->counter("prefix_cache_queries_total")),
      prefix_hits_(families_->counter("prefix_cache_hits_total")),
      preemptions_(families_->counter("num_preemptions_total")),
      preempted_tokens_(families_->counter("preempted_tokens_total")),
      computed_tokens_(families_->counter("computed_tokens_total")),
      sampled_tokens_(families_->counter("sampled_tokens_total")),
      hedges_(families_->counter("expert_hedges_total")),
      hedges_refused_(families_->counter("expert_hedges_refused_total")),
      seat_wait_seconds_(families_->histogram("sequence_queue_time_seconds")),
      iteration_tokens_(families_->histogram("iteration_tokens")),
      iteration_seconds_(families_->histogram("iteration_seconds")),
      round_trip_seconds_(families_->histogram("expert_round_trip_seconds")),
      attention_seconds_(families_->counter("iteration_attention_seconds_total")),
      expert_wait_seconds_(families_->counter("iteration_expert_wait_seconds_total")),
      engine_(*families_, "attention") {
  families_->start("attention");
  if (families_->is_for_vllm())
    for (const char* state : {"awake", "weights_offloaded", "discard_all"})
      families_->gauge("engine_sleep_state", {{"sleep_state", state}})
          .Set(state == std::string_view{"awake"} ? 1 : 0);
}

void attention_families::on_bounds(const bounds& most) {
  running_limit_.Set(most.max_num_seqs);
  kv_blocks_.Set(static_cast<double>(most.kv_blocks));
  kv_capacity_.Set(static_cast<double>(most.kv_tokens));
}

void attention_families::on_engine(const engine_progress& engine) {
  engine_.set(engine);
}

void attention_families::on_iteration(const iteration& done) {
  micro_batches_.Set(done.in_flight);
  iteration_tokens_.Observe(static_cast<double>(done.tokens));
  iteration_seconds_.Observe(seconds_of(done.attention_ns + done.waiting_ns));
  attention_seconds_.Increment(seconds_of(done.attention_ns));
  expert_wait_seconds_.Increment(seconds_of(done.waiting_ns));
}

void attention_families::on_level(const level& now) {
  running_.Set(static_cast<double>(now.running));
  waiting_.Set(static_cast<double>(now.waiting));
  kv_used_blocks_.Set(static_cast<double>(now.kv_blocks_used));
  kv_retained_blocks_.Set(static_cast<double>(now.kv_blocks_retained));
  kv_usage_.Set(
      now.kv_blocks == 0 ? 0 : static_cast<double>(now.kv_blocks_used) / static_cast<double>(now.kv_blocks));
}

void attention_families::on_tokens(std::uint32_t computed, std::uint32_t sampled) {
  computed_tokens_.Increment(computed);
  sampled_tokens_.Increment(sampled);
}

void attention_families::on_start(std::uint64_t queue_ns) {
  seat_wait_seconds_.Observe(seconds_of(queue_ns));
}

void attention_families::on_prefix(std::uint32_t num_known, std::uint32_t num_cached) {
  prefix_queries_.Increment(num_known);
  prefix_hits_.Increment(num_cached);
}

void attention_families::on_failure(ec code) {
  families_->counter("sequence_failures_total", {{"reason", to_string(code)}}).Increment();
}

void attention_families::on_preemption(std::uint32_t num_computed) {
  preemptions_.Increment();
  preempted_tokens_.Increment(num_computed);
}

void attention_families::on_expert_batch(std::uint32_t /*layer*/, std::uint32_t /*num_rows*/,
                                         std::uint64_t elapsed_ns) {
  round_trip_seconds_.Observe(seconds_of(elapsed_ns));
}

void attention_families::on_expert_retry(ec code) {
  families_->counter("expert_retries_total", {{"reason", code == ec::none ? "other" : to_string(code)}})
      .Increment();
}

void attention_families::on_hedge() {
  hedges_.Increment();
}

void attention_families::on_hedge_refused() {
  hedges_refused_.Increment();
}

void attention_families::on_request(const request_event& step) {
  if (requests_)
    requests_(step);
}

} // namespace troupe::metrics
