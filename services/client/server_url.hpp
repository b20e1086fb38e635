// A server of HTTP: where it is, what opens it, and one request to it, without Asio.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>

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
  std::uint16_t port = 0;
  std::string api_key;                            ///< sent with every request; empty: none
  std::shared_ptr<boost::asio::ssl::context> tls; ///< trusted certificates; null: plain HTTP
};

/// Certificates that are trusted for "https://".
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

/// Sends a request and waits for the answer: `exchange` (http_client.hpp) for callers without coroutines.
/// @param deadline  for all of it, the look-up of the host's name included
/// @throws http_error when the host's name has no address, the connection fails, ends early or the deadline
/// passes
http_answer fetch(const server_url& server, const std::string& method, const std::string& path,
                  std::string body, std::chrono::milliseconds deadline);

} // namespace troupe
