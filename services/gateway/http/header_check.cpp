#include "services/gateway/http/header_check.hpp"

#include <algorithm>
#include <utility>

#include "services/gateway/http/api.hpp"
#include "services/gateway/http/cors_policy.hpp"
#include "services/gateway/http/forwarded_for.hpp"
#include "services/gateway/http/host_policy.hpp"
#include "services/gateway/http/request_id.hpp"
#include "services/gateway/http/request_target.hpp"
#include "services/gateway/http/routes.hpp"

namespace troupe::http {

using openai::api_error;
using openai::invalid_request;

void note_header(const request_header& header, served_request& request) {
  auto& incoming = request.incoming;
  request.http_1_0 = header.http_1_0;
  request.keep_alive = header.keep_alive;
  request.head = header.method == "HEAD";
  incoming.method = header.method;
  if (!percent_decode(path_of_target(header.target), incoming.path))
    incoming.path.clear();
  incoming.query = query_of_target(header.target);
  incoming.path = canonical_path(std::move(incoming.path));
  const std::string_view id = header.value("x-request-id");
  incoming.id = is_sane_request_id(id) ? std::string(id) : draw_request_id();
  if (const std::string_view trace = header.value("traceparent"); is_valid_traceparent(trace))
    incoming.traceparent = trace;
  incoming.accept = header.value("accept");
  request.record.method = incoming.method;
  request.record.path = incoming.path;
  request.origin = header.value("origin");
}

header_verdict header_check::run() {
  try {
    return find_answer();
  } catch (const api_error& error) {
    header_verdict refusal{.answer = error_response(error), .refused = true};
    for (auto& extra : refusal_headers_)
      refusal.answer.headers.push_back(std::move(extra));
    return refusal;
  }
}

/// @throws api_error the refusal
header_verdict header_check::find_answer() {
  check_framing();
  check_host();
  check_client();
  header_verdict verdict;
  if (is_preflight()) {
    verdict.answer = cors_policy(context_.config.allowed_origins)
                         .preflight(request_.origin, header_.value("access-control-request-headers"));
    return verdict;
  }
  const auto& incoming = request_.incoming;
  if (incoming.method == "OPTIONS" && incoming.path == "*") { // about the server as a whole
    verdict.answer.status = 204;
    verdict.answer.headers = {{"allow", "GET, HEAD, POST, OPTIONS"}};
    return verdict;
  }
  std::string allow;
  try {
    verdict.where = &context_.routes.find(incoming.method, incoming.path, allow);
  } catch (const api_error&) {
    if (!allow.empty())
      refusal_headers_.emplace_back("allow", allow);
    throw;
  }
  const route& where = *verdict.where;
  request_.route_name = where.path;
  if (where.who != callers::anybody)
    check_key(where);
  if (where.post) {
    check_content();
    verdict.max_body_bytes = where.max_body_bytes;
  }
  return verdict;
}

/// The end of the request must be beyond doubt, or the next one would be read from the wrong place.
/// @throws api_error 400, 417 or 501
void header_check::check_framing() {
  request_.close = true;
  if (const auto encoding = header_.find("transfer-encoding")) {
    if (header_.http_1_0)
      throw invalid_request("Transfer-Encoding needs HTTP/1.1");
    if (!equal_in_any_case(*encoding, "chunked"))
      throw api_error(501, "invalid_request_error", "Transfer-Encoding is supported as 'chunked' alone");
  }
  if (!header_.http_1_0 && header_.count("host") != 1)
    throw invalid_request("a request needs exactly one Host header");
  if (const auto expect = header_.find("expect"); expect && !equal_in_any_case(*expect, "100-continue"))
    throw api_error(417, "invalid_request_error", "Expect is supported as '100-continue' alone");
  request_.close = false;
}

/// @throws api_error 403 when the request names another host
void header_check::check_host() const {
  const auto host = header_.find("host");
  if (!host || context_.config.hosts.allows(*host))
    return;
  context_.metrics.request_refused("host");
  throw api_error(403, "invalid_request_error",
                  "This server does not answer under the name '" + std::string(*host)
                      + "': name it with --allowed-hosts, or let clients send API keys (--api-key-file)",
                  {}, "host_not_allowed");
}

/// Behind a trusted proxy the requests in progress of each client are counted, not its connections.
/// @throws api_error 429 when the client has as many as it may
void header_check::check_client() {
  const auto& proxies = context_.config.trusted_proxies;
  if (!proxies.contains(peer_))
    return;
  const network_address client = forwarded_client(peer_, header_.joined("x-forwarded-for", ","), proxies);
  if (client == peer_)
    return; // the proxy's own request, such as a probe
  request_.record.client = client.text();
  request_.ticket = context_.clients.begin(client);
  if (request_.ticket)
    return;
  context_.metrics.request_refused("client");
  refusal_headers_.emplace_back("retry-after", "1");
  throw api_error(429, "overloaded_error",
                  "too many requests of " + client.text() + " are in progress, "
                      + std::to_string(context_.config.limits.max_connections_per_peer)
                      + " (--max-connections-per-peer)",
                  {}, "overloaded");
}

bool header_check::is_preflight() const {
  return !context_.config.allowed_origins.empty() && header_.method == "OPTIONS" && header_.has("origin")
         && header_.has("access-control-request-method");
}

/// A program on this machine: not a proxy for somebody else, nor a page in a browser.
bool header_check::is_from_this_machine() const {
  static const address_ranges loopback({"127.0.0.0/8", "::1"}, "loopback");
  static const host_policy own_names{std::vector<std::string>{}};
  return loopback.contains(peer_) && own_names.allows(header_.value("host")) && request_.origin.empty()
         && !header_.has("x-forwarded-for") && !header_.has("forwarded");
}

/// Notes the name of the key that was sent.
/// @throws api_error 401 when a key is needed and no known one was sent; 403 when the key does not open the
/// route
void header_check::check_key(const route& where) {
  const auto keys = context_.keys.get();
  const std::string_view bearer = header_.value("authorization");
  const api_keys::known_key* key = keys->find_bearer(bearer);
  bool sent = header_.has("authorization");
  for (const char* name : {"api-key", "x-api-key"}) // of Azure's clients, and of Anthropic's
    if (const auto bare = header_.find(name)) {
      sent = true;
      if (key == nullptr)
        key = keys->find(*bare);
    }
  if (key != nullptr)
    request_.incoming.key_name = key->name;
  const bool for_operators = where.who == callers::operators;
  if (key != nullptr && for_operators && !key->is_operators)
    throw api_error(403, "invalid_request_error",
                    "The API key is a client's: " + std::string(where.path)
                        + " needs one of --operator-key-file, or is asked at --management-port",
                    {}, "operators_only");
  if (key != nullptr || (!for_operators && !keys->required()))
    return;
  if (keys->empty()) {
    if (is_from_this_machine())
      return;
    throw api_error(
        403, "invalid_request_error",
        std::string(where.path)
            + " is for programs on this machine that ask a loopback address: elsewhere it needs a "
              "key of --operator-key-file, or is asked at --management-port",
        {}, "operators_only");
  }
  refusal_headers_.emplace_back("www-authenticate", "Bearer");
  throw api_error(
      401, "invalid_request_error",
      sent ? "The API key is wrong"
           : "No API key was sent: use 'Authorization: Bearer KEY', 'api-key: KEY' or 'x-api-key: KEY'",
      {}, "invalid_api_key");
}

/// Notes how the body is coded.
/// @throws api_error 415 for a type or coding that the server does not read
void header_check::check_content() {
  const std::string_view type = header_.value("content-type");
  // Browsers send other types, or none, across origins without a preflight.
  if (type.empty() && !request_.origin.empty())
    throw api_error(415, "invalid_request_error",
                    "Content-Type is missing: from a page (Origin), it must be application/json");
  const std::string_view media = type.substr(0, std::min(type.find(';'), type.find(' ')));
  if (!type.empty() && !equal_in_any_case(media, "application/json"))
    throw api_error(415, "invalid_request_error",
                    "Content-Type must be application/json, got '" + std::string(type) + "'");
  const std::string codings = header_.joined("content-encoding", ", ");
  const auto coding = content_coding_of(codings);
  if (!coding) {
    refusal_headers_.emplace_back("accept-encoding", known_codings);
    throw api_error(415, "invalid_request_error",
                    "Content-Encoding must be one of " + std::string(known_codings) + ", got '" + codings
                        + "'");
  }
  request_.coding = *coding;
}

} // namespace troupe::http
