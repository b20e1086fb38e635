// What the gateway process exposes: the life of requests as clients see it.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "services/metrics/registry.hpp"

namespace troupe {

/// How a piece of text work ended: `failed` is a request that was refused.
enum class text_end : uint8_t { done, failed, cancelled, timed_out };

/// The gateway's families, under the names, labels and bucket edges that vLLM's users know. Thread-safe.
class gateway_metrics {
 public:
  using seconds = std::chrono::duration<double>;

  explicit gateway_metrics(std::shared_ptr<metrics::registry> families);

  /// A prompt was given to the cluster.
  void prompt_started(size_t prompt_tokens);
  /// The first token of a choice, since the request arrived.
  void first_token(seconds since_arrival);
  /// New tokens of a choice after its first; `gap` since the ones before.
  void next_tokens(seconds gap, size_t num_tokens);
  /// A choice is complete. `decoding` from its first token to its last.
  void choice_finished(const std::string& reason, seconds since_arrival, seconds decoding,
                       uint32_t generated_tokens);
  /// The first token of a choice, since its request had a place on a worker.
  void prefilled(seconds since_placed);
  /// The last token of a choice, likewise.
  void computed(seconds since_placed);
  /// All choices of a request are complete. @param longest_choice  tokens of the longest of them
  void request_finished(uint32_t longest_choice);
  /// A request was refused or failed; `reason` from the closed set of ec names.
  void rejected(const std::string& reason);
  /// A response was sent; `route` from the closed set of routes.
  void responded(const std::string& route, unsigned status);
  /// What may be open at a time.
  void connections_limit(size_t most);
  /// Files were read again, or could not be.
  void reloaded(bool good);
  /// A stream ended with an error that would have been a 5xx.
  void stream_failed();
  void connection_opened();
  void connection_closed();
  /// A connection was turned away; `reason`: "all" places are taken, or all of this "peer".
  void connection_refused(const std::string& reason);
  /// An idle connection was closed to make room for a new one.
  void idle_connection_closed();
  /// A request was refused before it was looked at; `reason`: "client" has too many, unknown "host".
  void request_refused(const std::string& reason);
  /// New connections get a certificate that ends then. Before the first one there are no families of TLS.
  void certificate_used(std::chrono::system_clock::time_point not_after);
  /// A TLS handshake failed; `reason`: "left" or "timeout" of the client, "plain_http", "protocol".
  void handshake_failed(const std::string& reason);
  /// A client left, or read too slowly, before its answer was complete.
  void client_gone(bool too_slow);

  /// Text work that waits for a thread, and that runs.
  void text_jobs(size_t waiting, size_t running);
  /// Bytes of requests that text work holds, in a change.
  void text_bytes(double change);
  /// What they may be together.
  void text_bytes_limit(size_t bytes);
  void text_ended(text_end how);
  /// A text was tokenized, or could not be.
  void tokenized(seconds duration);
  /// A conversation was rendered, or could not be; waiting for a process counts.
  void rendered(seconds duration);
  // By the name of the client's API key, from the closed set of those that are configured.
  void key_known(const std::string& key);
  void key_request(const std::string& key);
  /// @param reason  "requests", "tokens" or "concurrency"
  void key_rejected(const std::string& key, const std::string& reason);
  /// @param kind  "prompt" or "generation"
  void key_tokens(const std::string& key, const std::string& kind, size_t num_tokens);

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
