#include "services/gateway/http/gateway_metrics.hpp"

#include <utility>

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>

namespace troupe {

namespace {

const char* name_of(text_end how) {
  switch (how) {
  case text_end::done:
    return "done";
  case text_end::failed:
    return "failed";
  case text_end::cancelled:
    return "cancelled";
  case text_end::timed_out:
    break;
  }
  return "timed_out";
}

} // namespace

gateway_metrics::gateway_metrics(std::shared_ptr<metrics::registry> families)
    : families_(std::move(families)),
      first_token_seconds_(families_->histogram("time_to_first_token_seconds")),
      inter_token_seconds_(families_->histogram("inter_token_latency_seconds")),
      time_per_token_seconds_(families_->histogram("request_time_per_output_token_seconds")),
      e2e_seconds_(families_->histogram("e2e_request_latency_seconds")),
      prefill_seconds_(families_->histogram("request_prefill_time_seconds")),
      decode_seconds_(families_->histogram("request_decode_time_seconds")),
      inference_seconds_(families_->histogram("request_inference_time_seconds")),
      request_prompt_tokens_(families_->histogram("request_prompt_tokens")),
      request_generation_tokens_(families_->histogram("request_generation_tokens")),
      longest_generation_tokens_(families_->histogram("request_max_num_generation_tokens")),
      prompt_tokens_(families_->counter("prompt_tokens_total")),
      generation_tokens_(families_->counter("generation_tokens_total")),
      streams_failed_(families_->counter("http_streams_failed_total")),
      connections_(families_->gauge("http_connections")),
      idle_connections_closed_(families_->counter("http_idle_connections_closed_total")),
      text_waiting_(families_->gauge("text_jobs", {{"state", "waiting"}})),
      text_running_(families_->gauge("text_jobs", {{"state", "running"}})),
      text_bytes_(families_->gauge("text_bytes")),
      tokenize_seconds_(families_->histogram("tokenize_seconds")),
      template_seconds_(families_->histogram("chat_template_seconds")) {
  families_->start("gateway");
  reloaded(true);
}

void gateway_metrics::prompt_started(std::size_t prompt_tokens) {
  prompt_tokens_.Increment(static_cast<double>(prompt_tokens));
  request_prompt_tokens_.Observe(static_cast<double>(prompt_tokens));
}

void gateway_metrics::first_token(seconds since_arrival) {
  generation_tokens_.Increment();
  first_token_seconds_.Observe(since_arrival.count());
}

void gateway_metrics::next_tokens(seconds gap, std::size_t num_tokens) {
  generation_tokens_.Increment(static_cast<double>(num_tokens));
  // Tokens that arrived together share the gap.
  for (std::size_t i = 0; i < num_tokens; ++i)
    inter_token_seconds_.Observe(gap.count() / static_cast<double>(num_tokens));
}

void gateway_metrics::choice_finished(const std::string& reason, seconds since_arrival, seconds decoding,
                                      std::uint32_t generated_tokens) {
  e2e_seconds_.Observe(since_arrival.count());
  request_generation_tokens_.Observe(generated_tokens);
  if (generated_tokens > 1)
    time_per_token_seconds_.Observe(decoding.count() / (generated_tokens - 1));
  decode_seconds_.Observe(decoding.count());
  families_->counter("request_success_total", {{"finished_reason", reason}}).Increment();
}

void gateway_metrics::prefilled(seconds since_placed) {
  prefill_seconds_.Observe(since_placed.count());
}

void gateway_metrics::computed(seconds since_placed) {
  inference_seconds_.Observe(since_placed.count());
}

void gateway_metrics::request_finished(std::uint32_t longest_choice) {
  longest_generation_tokens_.Observe(longest_choice);
}

void gateway_metrics::rejected(const std::string& reason) {
  families_->counter("admission_rejections_total", {{"reason", reason}}).Increment();
}

void gateway_metrics::responded(const std::string& route, unsigned status) {
  families_->counter("http_requests_total", {{"handler", route}, {"status", std::to_string(status)}})
      .Increment();
}

void gateway_metrics::connections_limit(std::size_t most) {
  families_->gauge("http_connections_limit").Set(static_cast<double>(most));
}

void gateway_metrics::reloaded(bool good) {
  families_->gauge("last_reload_successful").Set(good ? 1 : 0);
  if (good)
    families_->gauge("last_reload_success_timestamp_seconds").SetToCurrentTime();
}

void gateway_metrics::stream_failed() {
  streams_failed_.Increment();
}

void gateway_metrics::connection_opened() {
  connections_.Increment();
}

void gateway_metrics::connection_closed() {
  connections_.Decrement();
}

void gateway_metrics::connection_refused(const std::string& reason) {
  families_->counter("http_connections_refused_total", {{"reason", reason}}).Increment();
}

void gateway_metrics::idle_connection_closed() {
  idle_connections_closed_.Increment();
}

void gateway_metrics::request_refused(const std::string& reason) {
  families_->counter("http_requests_refused_total", {{"reason", reason}}).Increment();
}

void gateway_metrics::certificate_used(std::chrono::system_clock::time_point not_after) {
  for (const char* reason : {"left", "plain_http", "protocol", "timeout"})
    families_->counter("tls_handshake_failures_total", {{"reason", reason}});
  families_->gauge("tls_certificate_not_after_seconds")
      .Set(std::chrono::duration<double>(not_after.time_since_epoch()).count());
}

void gateway_metrics::handshake_failed(const std::string& reason) {
  families_->counter("tls_handshake_failures_total", {{"reason", reason}}).Increment();
}

void gateway_metrics::text_jobs(std::size_t waiting, std::size_t running) {
  text_waiting_.Set(static_cast<double>(waiting));
  text_running_.Set(static_cast<double>(running));
}

void gateway_metrics::text_bytes(double change) {
  text_bytes_.Increment(change);
}

void gateway_metrics::text_bytes_limit(std::size_t bytes) {
  families_->gauge("text_bytes_limit").Set(static_cast<double>(bytes));
}

void gateway_metrics::text_ended(text_end how) {
  families_->counter("text_jobs_ended_total", {{"how", name_of(how)}}).Increment();
}

void gateway_metrics::tokenized(seconds duration) {
  tokenize_seconds_.Observe(duration.count());
}

void gateway_metrics::rendered(seconds duration) {
  template_seconds_.Observe(duration.count());
}

void gateway_metrics::client_gone(bool too_slow) {
  families_->counter("http_clients_gone_total", {{"how", too_slow ? "too_slow" : "left"}}).Increment();
}

void gateway_metrics::key_known(const std::string& key) {
  families_->counter("key_requests_total", {{"key", key}});
  for (const char* reason : {"concurrency", "requests", "tokens"})
    families_->counter("key_rejections_total", {{"key", key}, {"reason", reason}});
  for (const char* kind : {"prompt", "generation"})
    families_->counter("key_tokens_total", {{"key", key}, {"kind", kind}});
}

void gateway_metrics::key_request(const std::string& key) {
  families_->counter("key_requests_total", {{"key", key}}).Increment();
}

void gateway_metrics::key_rejected(const std::string& key, const std::string& reason) {
  families_->counter("key_rejections_total", {{"key", key}, {"reason", reason}}).Increment();
}

void gateway_metrics::key_tokens(const std::string& key, const std::string& kind, std::size_t num_tokens) {
  families_->counter("key_tokens_total", {{"key", key}, {"kind", kind}})
      .Increment(static_cast<double>(num_tokens));
}

} // namespace troupe
