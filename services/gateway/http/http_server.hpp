// The gateway's HTTP server: OpenAI's API, and the pages that operators and probes read.
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
#include "services/gateway/http/generation_backend.hpp"
#include "services/gateway/http/host_policy.hpp"
#include "services/gateway/http/key_limits.hpp"
#include "services/gateway/openai/request.hpp"
#include "services/gateway/openai/text_codec.hpp"
#include "services/options/network_address.hpp"

namespace troupe {

class gateway_metrics;

namespace http {
class tls_identity;
} // namespace http

/// Every bound and deadline of the server, with the reason where it is not obvious.
struct http_limits {
  size_t max_connections = 2048;
  size_t max_connections_per_peer = 1024; ///< and requests in progress of one client behind a trusted proxy
  size_t max_header_bytes = 32 << 10;
  size_t max_body_bytes = 16 << 20;           ///< of one request; a context of 1M tokens fits as ids
  size_t max_buffered_body_bytes = 256 << 20; ///< of all connections together, as they arrive
  size_t max_pipelined_bytes = 64 << 10;      ///< read ahead while a request is answered
  size_t max_unsent_bytes = 4 << 20;          ///< tokens that wait for a client that does not read
  size_t max_gathered_bytes = 1 << 30;        ///< of all answers in progress that do not stream
  size_t max_first_prompts = 32;              ///< of one request that are open before any of them has a token
  size_t max_open_prompts = 128;              ///< then; the next ones follow as these end
  size_t send_buffer_bytes = 0;               ///< of each socket; 0: the system's choice
  size_t max_background_bytes = 256 << 20;    ///< of requests being tokenized or waiting for it
  std::chrono::milliseconds idle{75000};      ///< between requests of a kept connection
  /// From connecting, or a later request's first byte, to its header's end; the TLS handshake is within it.
  std::chrono::milliseconds header{10000};
  std::chrono::milliseconds body{60000};      ///< from there to the end of its body
  std::chrono::milliseconds write{30000};     ///< for one part of an answer to be taken
  std::chrono::milliseconds text{10000};      ///< for one request to be tokenized, from when its turn comes
  std::chrono::milliseconds request{3600000}; ///< for a whole answer
  std::chrono::milliseconds refusal_holds{
      100}; ///< for requests of the key that ask for no less, without asking again; 0: never
  // What /health takes for a process that is stuck.
  std::chrono::milliseconds text_margin{20000}; ///< beyond `text`: for one match, or for a chat template
  std::chrono::milliseconds text_stall{60000};  ///< a text waits, and none has been done
  std::chrono::milliseconds late_loop{5000};    ///< an event loop does not turn
  std::chrono::milliseconds beat{500};          ///< how often it says that it does
  std::chrono::milliseconds sse_ping{15000};    ///< of silence in a stream, until a comment is sent; 0: never
  /// For what a status should tell, before a stream is begun: longer than the 2 s that a request waits for a
  /// scheduler that is away.
  std::chrono::milliseconds stream_head{5000};
};

struct http_server_config {
  std::string host =
      "127.0.0.1"; ///< an address, of IPv6 in brackets or not, or a name; "0.0.0.0" and "::" listen on all
  uint16_t port = 8000;      ///< 0: any free one
  unsigned threads = 1;      ///< that read, write and format
  unsigned text_threads = 1; ///< that tokenize and render; of several one is kept for what is short
  std::vector<std::string>
      model_names; ///< that requests may use; answers carry the one asked for, or the first
  openai::request_limits requests;
  http::api_keys keys;
  http::host_policy hosts;                       ///< that Host may name
  address_ranges trusted_proxies;                ///< whose X-Forwarded-For counts, and not their connections
  std::shared_ptr<const http::tls_identity> tls; ///< of the API's port; null: it speaks plain HTTP
  /// Gets the address of a client whose TLS handshake failed, and why; called from any thread. Empty: nobody.
  std::function<void(const std::string& client, const std::string& reason)> handshake_failed;
  std::string management_host = "127.0.0.1";
  std::optional<uint16_t>
      management_port; ///< of probes and metrics, with a thread of its own; 0: any free one
  http::key_limit_table key_limits;
  std::function<std::chrono::steady_clock::time_point()> key_clock = std::chrono::steady_clock::now;
  std::vector<std::string> allowed_origins;   ///< for CORS, in lower case; empty: off; "*": all
  std::string version;                        ///< for /version
  std::map<std::string, std::string> details; ///< further fields of /version: instruction set, dtype
  /// Takes one line about a request that was answered but looks wrong; called from any thread. Empty: nobody.
  std::function<void(const std::string&)> warn;
  http::access_listener access; ///< gets each request once its answer has ended
  http_limits limits;
};

/// Serves from threads of its own between construction and stop.
class http_server {
 public:
  /// Listens at once.
  /// @throws std::runtime_error naming address and reason when it cannot listen, or what the config lacks
  http_server(http_server_config config, std::shared_ptr<generation_backend> backend,
              std::shared_ptr<const openai::text_codec> codec, std::shared_ptr<gateway_metrics> metrics);
  /// stop() without patience.
  ~http_server();
  http_server(const http_server&) = delete;
  http_server& operator=(const http_server&) = delete;

  /// The port it listens on.
  uint16_t port() const noexcept;

  /// The management port; 0 without one.
  uint16_t management_port() const noexcept;

  /// /ready says "draining" from now on, and connections end with the answers that they get; everything is
  /// still served.
  void leave() noexcept;

  /// Requests from now on need one of these keys, within these limits. From any thread.
  void set_keys(http::api_keys keys, const http::key_limit_table& limits);

  /// Connections from now on get this certificate; those that are open keep theirs. From any thread.
  /// @param identity  not null, and only where the server was made with one
  void set_certificate(std::shared_ptr<const http::tls_identity> identity);

  /// Drains: accepts nothing more, closes idle connections, lets running requests end until `patience` is
  /// over, then cancels and cuts the rest. Returns when all is closed. The management port is served
  /// on. Idempotent.
  void stop(std::chrono::milliseconds patience);

 private:
  class implementation;
  std::unique_ptr<implementation> implementation_;
};

} // namespace troupe
