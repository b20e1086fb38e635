// Reads the requests of a connection, with bounds and deadlines.
#pragma once

#include <optional>
#include <string>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/connection_context.hpp"
#include "services/gateway/http/end_watch.hpp"
#include "services/gateway/http/request_header.hpp"
#include "services/gateway/http/served_request.hpp"
#include "services/gateway/http/timed_stream.hpp"

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace troupe::http {

/// Steps that return false have ended the connection. Those that throw api_error are refusals after which the
/// connection is to be closed.
class request_reader {
 public:
  /// @param shared, context, stream, watch  outlive this
  request_reader(const api& shared, connection_context& context, timed_stream& stream,
                 const end_watch& watch);
  ~request_reader();
  request_reader(const request_reader&) = delete;
  request_reader& operator=(const request_reader&) = delete;

  /// When the header of the first request must have been read, and the TLS handshake before it.
  timed_stream::clock::time_point header_deadline() const { return header_deadline_; }

  /// Waits for the first byte of a request.
  task<bool> wait();

  /// Reads a header and notes it in `request`, even one that is incomplete.
  /// @throws api_error 400, 413 or 431
  task<bool> read_header(served_request& request);

  request_header header() const;

  /// Lowers the limit of the body.
  /// @throws api_error 413 when a larger one is announced
  void limit_body(std::size_t most);

  /// The body is larger than `small_body`, or may be.
  bool has_large_body() const;

  /// The client waits for leave to send the body.
  /// @throws api_error 429 when there is no room for a body as large as announced
  bool awaits_leave() const;

  /// Reads the body. It counts as its bytes arrive: an announced length alone keeps no other request out.
  /// @throws api_error 400, 413 or 429
  task<bool> read_body(std::string& body);

  /// Decodes the body on a thread of the pool. From then on its decoded bytes count.
  /// @throws api_error 400, 413 or 429; pool_too_busy
  task<void> decode(served_request& request);

  /// Frees the body and its room.
  void drop(std::string& body);

 private:
  bool has_begun();
  bool account(std::size_t bytes);
  openai::api_error too_large() const;

  const api& shared_;
  connection_context& context_;
  timed_stream& stream_;
  const end_watch& watch_;
  timed_stream::clock::time_point header_deadline_; // of the request that is awaited or read
  bool has_asked_ = false;                          // a header was read
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::size_t body_limit_ = 0;
  std::size_t accounted_bytes_ = 0; // of the body, among those of all connections
};

} // namespace troupe::http
