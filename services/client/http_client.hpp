// One HTTP request at a time, with or without TLS, with a deadline, on an Asio coroutine.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include <utility> // Asio of Boost 1.74 needs it before its own headers

#include <boost/asio/awaitable.hpp>

namespace boost::asio::ssl {
class context;
} // namespace boost::asio::ssl

namespace troupe {

/// A server that did not answer as it should: the message names what was asked and what came.
struct http_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "http://HOST:PORT" or "https://HOST:PORT" taken apart, and what opens it.
struct server_url {
  std::string host; ///< an IPv6 address without brackets
  uint16_t port = 0;
  std::string api_key;                            ///< sent with every request; empty: none
  std::shared_ptr<boost::asio::ssl::context> tls; ///< whom it trusts; null: plain HTTP
};

/// Whose certificates count for "https://".
struct server_trust {
  std::filesystem::path ca_file; ///< PEM, beside the system's; empty: the system's alone
  bool insecure = false;         ///< any
};

/// @param source  where the text is from, for messages
/// @throws option_error naming the source when the text is not of that form, or --ca-file when it has no
/// certificates
server_url parse_url(const std::string& text, const server_trust& trust = {},
                     const std::string& source = "--url");

struct http_answer {
  unsigned status = 0;
  std::string body; ///< empty when it was streamed
};

/// Called for each `data:` line of a stream, the prefix removed.
using event_handler = std::function<void(std::string data)>;

/// Sends a request and reads the answer. With `on_event`, a body of type text/event-stream is handed over
/// line by line as it arrives.
/// @param server  outlives the exchange; one of an https:// URL must show a certificate for its host, signed
/// by whom it trusts
/// @param deadline  for all of it, the look-up of the host's name included
/// @throws http_error when the host's name has no address, the connection fails, ends early or the deadline
/// passes
boost::asio::awaitable<http_answer> exchange(const server_url& server, std::string method, std::string path,
                                             std::string body, std::chrono::milliseconds deadline,
                                             event_handler on_event = {});

} // namespace troupe
