// Metrics of the gateway process: requests as clients see them.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "services/metrics/registry.hpp"

namespace troupe {

/// How a job of text work ended; `failed`: the request was refused.
enum class text_end : std::uint8_t { done, failed, cancelled, timed_out };

/// The families have the names, labels and bucket edges of vLLM where it has such a metric. Thread-safe.
class gateway_metrics {
 public:
  using seconds = std::chrono::duration<double>;

  explicit gateway_metrics(std::shared_ptr<metrics::registry> families);

  /// A prompt was given to the cluster.
  void prompt_started(std::size_t prompt_tokens);
  /// A choice got its first token.
  void first_token(seconds since_arrival);
  /// A choice got tokens after its first; `gap`: time since the previous ones.
  void next_tokens(seconds gap, std::size_t num_tokens);
  /// A choice is complete; `decoding`: time from its first token to its last.
  void choice_finished(const std::string& reason, seconds since_arrival, seconds decoding,
                       std::uint32_t generated_tokens);
  /// A choice got its first token; the time counts from its request's place on a worker.
  void prefilled(seconds since_placed);
  /// A choice got its last token; the time counts likewise.
  void computed(seconds since_placed);
  /// All choices of a request are complete. @param longest_choice  tokens of the longest of them
  void request_finished(std::uint32_t longest_choice);
  /// A request was refused or failed; `reason` from the closed set of ec names.
  void rejected(const std::string& reason);
  /// A response was sent; `route` from the closed set of routes.
  void responded(const std::string& route, unsigned status);
  /// The limit of open connections.
  void connections_limit(std::size_t most);
  /// A reload of files succeeded or failed.
  void reloaded(bool good);
  /// A stream ended with an error that would have been a 5xx.
  void stream_failed();
  void connection_opened();
  void connection_closed();
  /// A connection was refused; `reason`: "all" places, or all places of this "peer", are taken.
  void connection_refused(const std::string& reason);
  /// An idle connection was closed to make room for a new one.
  void idle_connection_closed();
  /// A request was refused by its header; `reason`: the "client" has too many, or the "host" is unknown.
  void request_refused(const std::string& reason);
  /// New connections get a certificate that expires at `not_after`. Creates the families of TLS.
  void certificate_used(std::chrono::system_clock::time_point not_after);
  /// A TLS handshake failed; `reason`: "left" or "timeout" of the client, "plain_http", "protocol".
  void handshake_failed(const std::string& reason);
  /// A client left, or read too slowly, before its answer was complete.
  void client_gone(bool too_slow);

  /// Numbers of waiting and of running jobs of text work.
  void text_jobs(std::size_t waiting, std::size_t running);
  /// Changes the number of bytes that text work holds.
  void text_bytes(double change);
  /// The limit of these bytes.
  void text_bytes_limit(std::size_t bytes);
  void text_ended(text_end how);
  /// A text was tokenized, or tokenizing failed.
  void tokenized(seconds duration);
  /// A conversation was rendered, or rendering failed; the wait for a process counts.
  void rendered(seconds duration);
  // By the name of the client's API key, from the closed set of those that are configured.
  void key_known(const std::string& key);
  void key_request(const std::string& key);
  /// @param reason  "requests", "tokens" or "concurrency"
  void key_rejected(const std::string& key, const std::string& reason);
  /// @param kind  "prompt" or "generation"
  void key_tokens(const std::string& key, const std::string& kind, std::size_t num_tokens);

  const metrics::registry& families() const noexcept { return *families_; }

 private:
  std::shared_ptr<metrics::registry> families_;
  prometheus::Histogram& first_token_seconds_;
  prometheus::Histogram& inter_token_seconds_;
  prometheus::Histogram& time_per_token_seconds_;
  prometheus::Histogram& e2e_seconds_;
  prometheus::Histogram& prefill_seconds_;
  prometheus::Histogram& decode_seconds_;
  prometheus::Histogram& inference_seconds_;
  prometheus::Histogram& request_prompt_tokens_;
  prometheus::Histogram& request_generation_tokens_;
  prometheus::Histogram& longest_generation_tokens_;
  prometheus::Counter& prompt_tokens_;
  prometheus::Counter& generation_tokens_;
  prometheus::Counter& streams_failed_;
  prometheus::Gauge& connections_;
  prometheus::Counter& idle_connections_closed_;
  prometheus::Gauge& text_waiting_;
  prometheus::Gauge& text_running_;
  prometheus::Gauge& text_bytes_;
  prometheus::Histogram& tokenize_seconds_;
  prometheus::Histogram& template_seconds_;
};

} // namespace troupe
