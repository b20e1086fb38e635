// The gateway's HTTP server: OpenAI's API and the pages for operators and probes.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "services/gateway/http/access_record.hpp"
#include "services/gateway/http/api_keys.hpp"
#include "services/gateway/http/control_backend.hpp"
#include "services/gateway/http/generation_backend.hpp"
#include "services/gateway/http/host_policy.hpp"
#include "services/gateway/http/key_limits.hpp"
#include "services/gateway/openai/request.hpp"
#include "services/gateway/openai/text_codec.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/options/network_address.hpp"

namespace troupe {

class gateway_metrics;

namespace http {
class route_table;
class tls_identity;
} // namespace http

/// Every bound and deadline of the server, with the reason where it is not obvious.
struct http_limits {
  std::size_t max_connections = 2048;
  std::size_t max_connections_per_peer =
      1024; ///< also limits requests in progress of a client behind a proxy
  std::size_t max_header_bytes = 32 << 10;
  std::size_t max_body_bytes = 16 << 20;           ///< of one request; a context of 1M tokens fits as ids
  std::size_t max_buffered_body_bytes = 256 << 20; ///< of all connections together
  std::size_t max_pipelined_bytes = 64 << 10;      ///< read ahead while a request is answered
  std::size_t max_unsent_bytes = 4 << 20;          ///< waiting for a client that does not read
  std::size_t max_gathered_bytes = 1 << 30;        ///< of all answers in progress that do not stream
  std::size_t max_first_prompts = 32;              ///< open prompts of a request before its first token
  std::size_t max_open_prompts = 128;              ///< open prompts after it; others follow as these end
  std::size_t send_buffer_bytes = 0;               ///< of each socket; 0: the default of the system
  std::size_t max_background_bytes = 256 << 20;    ///< of requests that are tokenized or wait for it
  std::chrono::milliseconds idle{75000};           ///< between requests of a kept connection
  /// To the end of a header, from its first byte, or for the first one from the connect (includes the TLS
  /// handshake).
  std::chrono::milliseconds header{10000};
  std::chrono::milliseconds body{60000};      ///< from the end of the header to the end of the body
  std::chrono::milliseconds write{30000};     ///< for the client to take one part of an answer
  std::chrono::milliseconds text{10000};      ///< to tokenize one request, from the start of the job
  std::chrono::milliseconds request{3600000}; ///< for a whole answer
  std::chrono::milliseconds refusal_holds{
      100}; ///< time for which a refusal counts for further requests of its key; 0: none
  // /health reports a process as stuck after these times.
  std::chrono::milliseconds text_margin{20000}; ///< beyond `text`, for one match or a chat template
  std::chrono::milliseconds text_stall{60000};  ///< a job waits, and none has ended
  std::chrono::milliseconds late_loop{5000};    ///< an event loop does not turn
  std::chrono::milliseconds beat{500};          ///< interval at which a loop reports that it turns
  std::chrono::milliseconds sse_ping{15000}; ///< silence of a stream until it sends a sign of life; 0: never
  /// A stream begins after this time even without a token; an error before then is told by the status. Longer
  /// than the 2 s that a request waits for a scheduler that is away.
  std::chrono::milliseconds stream_head{5000};
};

struct http_server_config {
  std::string host =
      "127.0.0.1"; ///< name or address (IPv6 with or without brackets); "0.0.0.0", "::": all addresses
  std::uint16_t port = 8000; ///< 0: any free one
  unsigned threads = 1;      ///< of I/O and formatting
  unsigned text_threads = 1; ///< for tokenizing and rendering; of several, one takes short jobs only
  std::vector<std::string>
      model_names; ///< accepted in requests; answers carry the one asked for, or the first
  openai::request_limits requests;
  http::api_keys keys;
  http::host_policy hosts;                       ///< accepted in Host
  address_ranges trusted_proxies;                ///< limited by X-Forwarded-For instead of connections
  std::shared_ptr<const http::tls_identity> tls; ///< of the API's port; null: plain HTTP
  /// Called from any thread after a failed TLS handshake. May be empty.
  std::function<void(const std::string& client, const std::string& reason)> handshake_failed;
  std::string management_host = "127.0.0.1";
  std::optional<std::uint16_t>
      management_port; ///< for probes and metrics, with a thread of its own; 0: any free one
  http::key_limit_table key_limits;
  std::function<std::chrono::steady_clock::time_point()> key_clock = std::chrono::steady_clock::now;
  std::vector<std::string> allowed_origins;   ///< for CORS, in lower case; empty: off; "*": all
  std::string version;                        ///< for /version
  std::string fingerprint;                    ///< `system_fingerprint` of answers; empty: they have none
  std::string tokenizer_info = "{}";          ///< JSON object for /tokenizer_info
  std::map<std::string, std::string> details; ///< further fields of /version: instruction set, dtype
  /// Called from any thread with a warning about a request that was answered. May be empty.
  std::function<void(const std::string&)> warn;
  http::access_listener access; ///< gets each request once its answer has ended
  http_limits limits;
};

/// Serves on threads of its own from construction to stop.
class http_server {
 public:
  /// Listens at once, and serves.
  /// @param routes  what is served; outlives this
  /// @param management  endpoint that listens on the management port already; null: the server opens that
  /// port
  /// @throws std::runtime_error naming address and reason when it cannot listen, or the missing part of the
  /// config
  http_server(http_server_config config, const http::route_table& routes,
              std::shared_ptr<generation_backend> backend, std::shared_ptr<control_backend> control,
              std::shared_ptr<const openai::text_codec> codec, std::shared_ptr<gateway_metrics> metrics,
              std::unique_ptr<metrics::endpoint> management = nullptr);
  /// stop() without patience.
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// The port it listens on.
  std::uint16_t port() const noexcept;

  /// The management port; 0 without one.
  std::uint16_t management_port() const noexcept;

  /// From now on /ready says "draining", and each connection ends after its next answer. Everything is still
  /// served.
  void leave() noexcept;

  /// Replaces the keys and their limits for further requests. From any thread.
  void set_keys(http::api_keys keys, const http::key_limit_table& limits);

  /// Replaces the certificate for further connections. From any thread.
  /// @param identity  not null; the server was constructed with one
  void set_certificate(std::shared_ptr<const http::tls_identity> identity);

  /// Drains: accepts no more connections, closes idle ones, gives running requests up to `patience` to end,
  /// then cancels and cuts the rest. Returns when all connections are closed. The management port stays open.
  /// Idempotent.
  void stop(std::chrono::milliseconds patience);

 private:
  class implementation;
  std::unique_ptr<implementation> implementation_;
};

} // namespace troupe
