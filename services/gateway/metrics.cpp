#include "services/gateway/metrics.hpp"

#include <utility>

#include "services/metrics/bucket_edges.hpp"

namespace troupe {

namespace {

constexpr const char* success_name = "request_success_total";
constexpr const char* success_help = "Choices completed, by how they ended";
constexpr const char* rejections_name = "admission_rejections_total";
constexpr const char* rejections_help = "Requests refused or failed by the cluster, by reason";
constexpr const char* gone_name = "http_clients_gone_total";
constexpr const char* gone_help = "Clients that left or were cut before their answer was complete";
constexpr const char* key_requests_name = "key_requests_total";
constexpr const char* key_requests_help = "Requests of an API key that its limits allowed";
constexpr const char* key_rejections_name = "key_rejections_total";
constexpr const char* key_rejections_help = "Requests of an API key that were beyond its limits, by which";
constexpr const char* key_tokens_name = "key_tokens_total";
constexpr const char* key_tokens_help = "Tokens of an API key's requests, by kind";

} // namespace

gateway_metrics::gateway_metrics(std::shared_ptr<metrics::registry> families)
    : families_(std::move(families)),
      first_token_seconds_(families_->histogram("time_to_first_token_seconds",
                                                "From a request's arrival to a choice's first token",
                                                metrics::first_token_seconds)),
      inter_token_seconds_(families_->histogram("inter_token_latency_seconds",
                                                "Between successive tokens of a choice",
                                                metrics::inter_token_seconds)),
      time_per_token_seconds_(families_->histogram("request_time_per_output_token_seconds",
                                                   "Mean time per token after the first, by choice",
                                                   metrics::inter_token_seconds)),
      e2e_seconds_(families_->histogram("e2e_request_latency_seconds",
                                        "From a request's arrival to a choice's end",
                                        metrics::request_seconds)),
      request_prompt_tokens_(
          families_->histogram("request_prompt_tokens", "Tokens of a prompt", metrics::token_counts)),
      request_generation_tokens_(
          families_->histogram("request_generation_tokens", "New tokens of a choice", metrics::token_counts)),
      prompt_tokens_(families_->counter("prompt_tokens_total", "Prompt tokens taken in")),
      generation_tokens_(families_->counter("generation_tokens_total", "New tokens received from workers")),
      connections_(families_->gauge("http_connections", "Open client connections")),
      connections_refused_(families_->counter("http_connections_refused_total",
                                              "Connections turned away because too many are open")) {
  // Alerts on rates need the series before the first event.
  for (const char* reason : {"stop", "length"})
    families_->counter(success_name, success_help, {{"finished_reason", reason}});
  families_->counter(rejections_name, rejections_help, {{"reason", "overloaded"}});
  for (const char* how : {"left", "too_slow"})
    families_->counter(gone_name, gone_help, {{"how", how}});
}

void gateway_metrics::prompt_started(size_t prompt_tokens) {
  prompt_tokens_.Increment(static_cast<double>(prompt_tokens));
  request_prompt_tokens_.Observe(static_cast<double>(prompt_tokens));
}

void gateway_metrics::first_token(seconds since_arrival) {
  generation_tokens_.Increment();
  first_token_seconds_.Observe(since_arrival.count());
}

void gateway_metrics::next_tokens(seconds gap, size_t num_tokens) {
  generation_tokens_.Increment(static_cast<double>(num_tokens));
  // Tokens that arrived together share the gap.
  for (size_t i = 0; i < num_tokens; ++i)
    inter_token_seconds_.Observe(gap.count() / static_cast<double>(num_tokens));
}

void gateway_metrics::choice_finished(const std::string& reason, seconds since_arrival, seconds decoding,
                                      uint32_t generated_tokens) {
  e2e_seconds_.Observe(since_arrival.count());
  request_generation_tokens_.Observe(generated_tokens);
  if (generated_tokens > 1)
    time_per_token_seconds_.Observe(decoding.count() / (generated_tokens - 1));
  families_->counter(success_name, success_help, {{"finished_reason", reason}}).Increment();
}

void gateway_metrics::rejected(const std::string& reason) {
  families_->counter(rejections_name, rejections_help, {{"reason", reason}}).Increment();
}

void gateway_metrics::responded(const std::string& route, unsigned status) {
  families_
      ->counter("http_requests_total", "Responses sent, by route and status",
                {{"handler", route}, {"status", std::to_string(status)}})
      .Increment();
}

void gateway_metrics::connection_opened() {
  connections_.Increment();
}

void gateway_metrics::connection_closed() {
  connections_.Decrement();
}

void gateway_metrics::connection_refused() {
  connections_refused_.Increment();
}

void gateway_metrics::client_gone(bool too_slow) {
  families_->counter(gone_name, gone_help, {{"how", too_slow ? "too_slow" : "left"}}).Increment();
}

void gateway_metrics::key_known(const std::string& key) {
  families_->counter(key_requests_name, key_requests_help, {{"key", key}});
  for (const char* reason : {"concurrency", "requests", "tokens"})
    families_->counter(key_rejections_name, key_rejections_help, {{"key", key}, {"reason", reason}});
  for (const char* kind : {"prompt", "generation"})
    families_->counter(key_tokens_name, key_tokens_help, {{"key", key}, {"kind", kind}});
}

void gateway_metrics::key_request(const std::string& key) {
  families_->counter(key_requests_name, key_requests_help, {{"key", key}}).Increment();
}

void gateway_metrics::key_rejected(const std::string& key, const std::string& reason) {
  families_->counter(key_rejections_name, key_rejections_help, {{"key", key}, {"reason", reason}})
      .Increment();
}

void gateway_metrics::key_tokens(const std::string& key, const std::string& kind, size_t num_tokens) {
  families_->counter(key_tokens_name, key_tokens_help, {{"key", key}, {"kind", kind}})
      .Increment(static_cast<double>(num_tokens));
}

} // namespace troupe
