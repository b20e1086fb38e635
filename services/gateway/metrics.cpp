#include "services/gateway/metrics.hpp"

#include <utility>

#include "services/metrics/bucket_edges.hpp"

namespace troupe {

namespace {

constexpr const char* success_name = "request_success_total";
constexpr const char* success_help = "Choices completed, by how they ended";
constexpr const char* rejections_name = "admission_rejections_total";
constexpr const char* rejections_help = "Requests refused or failed by the cluster, by reason";
constexpr const char* refused_name = "http_connections_refused_total";
constexpr const char* refused_help = "Connections turned away because too many are open, in all or of a peer";
constexpr const char* requests_refused_name = "http_requests_refused_total";
constexpr const char* requests_refused_help =
    "Requests refused for their client's number of requests, or their Host";
constexpr const char* handshakes_name = "tls_handshake_failures_total";
constexpr const char* handshakes_help = "Connections that ended in their TLS handshake, by why";
constexpr const char* gone_name = "http_clients_gone_total";
constexpr const char* gone_help = "Clients that left or were cut before their answer was complete";
constexpr const char* key_requests_name = "key_requests_total";
constexpr const char* key_requests_help = "Requests of an API key that its limits allowed";
constexpr const char* key_rejections_name = "key_rejections_total";
constexpr const char* key_rejections_help = "Requests of an API key that were beyond its limits, by which";
constexpr const char* key_tokens_name = "key_tokens_total";
constexpr const char* key_tokens_help = "Tokens of an API key's requests, by kind";
constexpr const char* text_jobs_name = "text_jobs";
constexpr const char* text_jobs_help = "Requests whose text waits for a thread, or is worked on";
constexpr const char* text_ends_name = "text_jobs_ended_total";
constexpr const char* text_ends_help = "Text work that has ended, by how";

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
      idle_connections_closed_(families_->counter("http_idle_connections_closed_total",
                                                  "Idle connections closed to make room for new ones")),
      text_waiting_(families_->gauge(text_jobs_name, text_jobs_help, {{"state", "waiting"}})),
      text_running_(families_->gauge(text_jobs_name, text_jobs_help, {{"state", "running"}})),
      text_bytes_(families_->gauge("text_bytes", "Bytes of the requests that text work holds")),
      tokenize_seconds_(
          families_->histogram("tokenize_seconds", "To tokenize one text", metrics::text_seconds)),
      template_seconds_(families_->histogram("chat_template_seconds",
                                             "To render one conversation, with the wait for a process",
                                             metrics::text_seconds)) {
  // Alerts on rates need the series before the first event.
  for (const char* reason : {"stop", "length"})
    families_->counter(success_name, success_help, {{"finished_reason", reason}});
  families_->counter(rejections_name, rejections_help, {{"reason", "overloaded"}});
  for (const char* reason : {"all", "peer"})
    families_->counter(refused_name, refused_help, {{"reason", reason}});
  for (const char* reason : {"client", "host"})
    families_->counter(requests_refused_name, requests_refused_help, {{"reason", reason}});
  for (const char* how : {"left", "too_slow"})
    families_->counter(gone_name, gone_help, {{"how", how}});
  for (const text_end how : {text_end::done, text_end::failed, text_end::cancelled, text_end::timed_out})
    families_->counter(text_ends_name, text_ends_help, {{"how", name_of(how)}});
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

void gateway_metrics::connection_refused(const std::string& reason) {
  families_->counter(refused_name, refused_help, {{"reason", reason}}).Increment();
}

void gateway_metrics::idle_connection_closed() {
  idle_connections_closed_.Increment();
}

void gateway_metrics::request_refused(const std::string& reason) {
  families_->counter(requests_refused_name, requests_refused_help, {{"reason", reason}}).Increment();
}

void gateway_metrics::certificate_used(std::chrono::system_clock::time_point not_after) {
  for (const char* reason : {"left", "plain_http", "protocol", "timeout"})
    families_->counter(handshakes_name, handshakes_help, {{"reason", reason}});
  families_
      ->gauge("tls_certificate_not_after_seconds",
              "When the certificate for new connections expires, in Unix time")
      .Set(std::chrono::duration<double>(not_after.time_since_epoch()).count());
}

void gateway_metrics::handshake_failed(const std::string& reason) {
  families_->counter(handshakes_name, handshakes_help, {{"reason", reason}}).Increment();
}

void gateway_metrics::text_jobs(size_t waiting, size_t running) {
  text_waiting_.Set(static_cast<double>(waiting));
  text_running_.Set(static_cast<double>(running));
}

void gateway_metrics::text_bytes(double change) {
  text_bytes_.Increment(change);
}

void gateway_metrics::text_bytes_limit(size_t bytes) {
  families_->gauge("text_bytes_limit", "What text_bytes may be").Set(static_cast<double>(bytes));
}

void gateway_metrics::text_ended(text_end how) {
  families_->counter(text_ends_name, text_ends_help, {{"how", name_of(how)}}).Increment();
}

void gateway_metrics::tokenized(seconds duration) {
  tokenize_seconds_.Observe(duration.count());
}

void gateway_metrics::rendered(seconds duration) {
  template_seconds_.Observe(duration.count());
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
