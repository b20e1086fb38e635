// What a request's header decides before its body is read: the route, or an answer without one.
#pragma once

#include <cstddef>

#include "services/gateway/http/connection_context.hpp"
#include "services/gateway/http/request_header.hpp"
#include "services/gateway/http/served_request.hpp"
#include "services/options/network_address.hpp"

namespace troupe::http {

struct route;

/// A request that is refused, or has no use for a body, may have a body of up to N bytes. The body is read to
/// its end, so that the connection can be kept.
inline constexpr std::size_t small_body = 64 << 10;

struct header_verdict {
  const route* where = nullptr; ///< null: `answer` is the answer
  response answer{};
  bool refused = false; ///< `answer` is an error
  std::size_t max_body_bytes = small_body;
};

/// Copies what later steps need of a header, which may be incomplete.
void note_header(const request_header& header, served_request& request);

/// Checks one request. Pure, apart from metrics and the count of requests of its client.
class header_check {
 public:
  /// @param peer     the other end of the connection: the client, or a proxy
  /// @param request  after note_header; gets the name of the key, the client, the coding of the body
  header_check(connection_context& context, const network_address& peer, const request_header& header,
               served_request& request)
      : context_(context), peer_(peer), header_(header), request_(request) {}

  /// Call once. Where the end of the request is in doubt, the connection is to be closed.
  header_verdict run();

 private:
  header_verdict find_answer();
  void check_framing();
  void check_host() const;
  void check_client();
  bool is_preflight() const;
  bool is_from_this_machine() const;
  void check_key(const route& where);
  void check_content();

  connection_context& context_;
  const network_address& peer_;
  const request_header& header_;
  served_request& request_;
  header_list refusal_headers_; ///< of a refusal, beside those of every error
};

} // namespace troupe::http
