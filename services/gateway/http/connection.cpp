#include "services/gateway/http/connection.hpp"

#include <algorithm>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "services/gateway/http/forwarded_for.hpp"
#include "services/gateway/http/request_id.hpp"
#include "services/gateway/http/request_target.hpp"
#include "services/gateway/http/routes.hpp"

namespace troupe::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using openai::api_error;
using openai::invalid_request;

namespace {

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

} // namespace

task<bool> connection::wait_for_request() {
  if (draining_ || gone_)
    co_return false;
  if (buffer_.size() > 0) {
    header_deadline_ = std::chrono::steady_clock::now() + limits_.bounds.header;
    co_return true;
  }
  if (read_ended_)
    co_return false;
  // Who connects has something to ask.
  const time_limit limit(*this, has_asked_ ? std::chrono::steady_clock::now() + limits_.bounds.idle
                                           : header_deadline_);
  beast::error_code error;
  const size_t bytes =
      co_await stream_.async_read_some(buffer_.prepare(4096), redirect_error(use_awaitable, error));
  buffer_.commit(bytes);
  if (has_asked_)
    header_deadline_ = std::chrono::steady_clock::now() + limits_.bounds.header;
  co_return !error && !timed_out_;
}

void connection::begin_request() {
  incoming_ = request{};
  record_ = access_record{};
  begun_ = std::chrono::steady_clock::now();
  origin_.clear();
  route_name_ = "other";
  body_limit_ = limits_.bounds.max_body_bytes;
  http_1_0_ = false;
  head_ = false;
  keep_alive_ = false;
  close_ = false;
  answered_ = false;
  stream_head_.clear();
  chunked_ = false;
  coding_ = content_coding::identity;
}

task<bool> connection::serve_request() {
  begin_request();
  const bool header = co_await read_header();
  if (!header || !place_->begin_request())
    co_return false;
  has_asked_ = true;
  response early;
  early.status = 0;
  const route* where = nullptr;
  std::optional<response> refusal;
  try {
    where = check_header(early);
  } catch (const api_error& e) {
    refusal = error_response(e);
    for (auto& extra : early.headers)
      refusal->headers.push_back(std::move(extra));
  }
  if (refusal && (close_ || has_large_body())) {
    co_await refuse_and_close(std::move(*refusal));
    co_return false;
  }
  const bool body = co_await read_body();
  if (!body)
    co_return false;
  if (refusal) {
    co_await send(std::move(*refusal));
  } else if (where == nullptr) {
    co_await send(std::move(early));
  } else {
    try {
      co_await decode_body();
    } catch (const std::exception&) {
      refusal = answer_to_exception(shared_);
    }
    if (refusal) {
      drop_body();
      co_await send(std::move(*refusal));
    } else {
      co_await handle(*this, shared_, *where);
    }
  }
  co_return !gone_ && keeps_alive();
}

task<bool> connection::read_header() {
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(limits_.bounds.max_header_bytes));
  parser_->body_limit(body_limit_);
  beast::error_code error;
  {
    const time_limit limit(*this, header_deadline_);
    co_await bhttp::async_read_header(stream_, buffer_, *parser_, redirect_error(use_awaitable, error));
  }
  note_header();
  if (!error)
    co_return true;
  std::optional<api_error> refusal;
  if (error == bhttp::error::header_limit)
    refusal = api_error(431, "invalid_request_error",
                        "the request header is larger than " + std::to_string(limits_.bounds.max_header_bytes)
                            + " bytes");
  else if (error == bhttp::error::body_limit)
    refusal = too_large();
  else if (timed_out_)
    // The stream is closed: nobody can be told.
    shared_.metrics->client_gone(true);
  else if (error != bhttp::error::end_of_stream && error != bhttp::error::partial_message
           && error.category() == bhttp::make_error_code(bhttp::error::bad_method).category())
    refusal = invalid_request("malformed HTTP request: " + error.message());
  if (refusal)
    co_await refuse_and_close(error_response(*refusal));
  co_return false;
}

void connection::note_header() {
  const auto& message = parser_->get();
  http_1_0_ = message.version() < 11;
  keep_alive_ = message.keep_alive();
  head_ = message.method() == bhttp::verb::head;
  incoming_.method = view(message.method_string());
  const std::string_view path = path_of_target(view(message.target()));
  if (!percent_decode(path, incoming_.path))
    incoming_.path.clear();
  incoming_.query = query_of_target(view(message.target()));
  // As clients write it who put a base URL and a path together.
  if (incoming_.path.size() > 1 && incoming_.path.ends_with('/'))
    incoming_.path.pop_back();
  const std::string_view id = view(message["x-request-id"]);
  incoming_.id = is_sane_request_id(id) ? std::string(id) : draw_request_id();
  if (const std::string_view trace = view(message["traceparent"]); is_valid_traceparent(trace))
    incoming_.traceparent = trace;
  record_.method = incoming_.method;
  record_.path = incoming_.path;
  origin_ = view(message[bhttp::field::origin]);
}

bool connection::is_preflight() const {
  const auto& message = parser_->get();
  return !shared_.config.allowed_origins.empty() && message.method() == bhttp::verb::options
         && message.count(bhttp::field::origin) > 0
         && message.count(bhttp::field::access_control_request_method) > 0;
}

/// What a browser asks before it sends what a page of another origin wants sent (Fetch standard, "CORS
/// protocol"). To an origin that is not allowed it says nothing, which is a refusal.
response connection::preflight() const {
  response answer;
  answer.status = 204;
  if (!origin_is_allowed())
    return answer;
  const std::string asked(view(parser_->get()[bhttp::field::access_control_request_headers]));
  answer.headers = {{"access-control-allow-methods", "GET, HEAD, POST"},
                    // By name: a browser does not take "*" for Authorization.
                    {"access-control-allow-headers",
                     asked.empty() ? "authorization, api-key, content-type, x-request-id" : asked},
                    {"access-control-max-age", "600"}};
  return answer;
}

/// @throws api_error 403 when the request is for a host that is not this one's
void connection::check_host() const {
  const auto& message = parser_->get();
  const auto host = message.find(bhttp::field::host);
  if (host == message.end() || shared_.config.hosts.allows(view(host->value())))
    return;
  shared_.metrics->request_refused("host");
  throw api_error(403, "invalid_request_error",
                  "This server does not answer under the name '" + std::string(view(host->value()))
                      + "': name it with --allowed-hosts, or let clients send API keys (--api-key-file)",
                  {}, "host_not_allowed");
}

/// Behind a trusted proxy, what is counted by client are requests in progress.
/// @throws api_error 429 when the client has as many as it may
void connection::check_client(response& early) {
  if (!shared_.config.trusted_proxies.contains(peer_))
    return;
  std::string forwarded;
  const auto [first, last] = parser_->get().equal_range("x-forwarded-for");
  for (auto header = first; header != last; ++header)
    forwarded += (forwarded.empty() ? "" : ",") + std::string(view(header->value()));
  const network_address client = forwarded_client(peer_, forwarded, shared_.config.trusted_proxies);
  if (client == peer_)
    return; // its own, such as a probe's
  record_.client = client.text();
  ticket_ = limits_.clients.begin(client);
  if (ticket_)
    return;
  shared_.metrics->request_refused("client");
  early.headers.emplace_back("retry-after", "1");
  throw api_error(429, "overloaded_error",
                  "too many requests of " + client.text() + " are in progress, "
                      + std::to_string(limits_.bounds.max_connections_per_peer)
                      + " (--max-connections-per-peer)",
                  {}, "overloaded");
}

/// Notes whose key was sent.
/// @throws api_error 401 when keys are needed and none of them was sent
void connection::check_key(response& early) {
  const auto& message = parser_->get();
  const auto keys = shared_.keys.get();
  if (!keys->required())
    return;
  const auto azure = message.find("api-key");
  const std::string* name = keys->find_bearer(view(message[bhttp::field::authorization]));
  if (name == nullptr && azure != message.end())
    name = keys->find(view(azure->value()));
  if (name != nullptr) {
    incoming_.key_name = *name;
    return;
  }
  const bool sent = message.count(bhttp::field::authorization) > 0 || azure != message.end();
  early.headers.emplace_back("www-authenticate", "Bearer");
  throw api_error(401, "invalid_request_error",
                  sent ? "The API key is wrong"
                       : "No API key was sent: use 'Authorization: Bearer KEY' or 'api-key: KEY'",
                  {}, "invalid_api_key");
}

/// Notes how the body is coded.
/// @throws api_error 415 for a type or coding that is not read here
void connection::check_content(response& early) {
  const auto& message = parser_->get();
  const std::string_view type = view(message[bhttp::field::content_type]);
  // Browsers send other types, or none, across origins without asking first.
  if (type.empty() && !origin_.empty())
    throw api_error(415, "invalid_request_error",
                    "Content-Type is missing: from a page (Origin), it must be application/json");
  if (!type.empty()) {
    const std::string_view media = type.substr(0, std::min(type.find(';'), type.find(' ')));
    if (!beast::iequals({media.data(), media.size()}, "application/json"))
      throw api_error(415, "invalid_request_error",
                      "Content-Type must be application/json, got '" + std::string(type) + "'");
  }
  std::string codings;
  const auto [first, last] = message.equal_range(bhttp::field::content_encoding);
  for (auto header = first; header != last; ++header)
    codings += (codings.empty() ? "" : ", ") + std::string(view(header->value()));
  const auto coding = content_coding_of(codings);
  if (!coding) {
    early.headers.emplace_back("accept-encoding", known_codings);
    throw api_error(415, "invalid_request_error",
                    "Content-Encoding must be one of " + std::string(known_codings) + ", got '" + codings
                        + "'");
  }
  coding_ = *coding;
}

/// What can be said before the body is read. Returns nullptr when `early` is the answer.
const route* connection::check_header(response& early) {
  const auto& message = parser_->get();
  // What frames the message must be beyond doubt, or the next request would begin in the wrong place.
  close_ = true;
  if (const auto encoding = message.find(bhttp::field::transfer_encoding); encoding != message.end()) {
    if (http_1_0_)
      throw invalid_request("Transfer-Encoding needs HTTP/1.1");
    if (!beast::iequals(encoding->value(), "chunked"))
      throw api_error(501, "invalid_request_error", "Transfer-Encoding is supported as 'chunked' alone");
  }
  if (!http_1_0_ && message.count(bhttp::field::host) != 1)
    throw invalid_request("a request needs exactly one Host header");
  if (const auto expect = message.find(bhttp::field::expect);
      expect != message.end() && !beast::iequals(expect->value(), "100-continue"))
    throw api_error(417, "invalid_request_error", "Expect is supported as '100-continue' alone");
  close_ = false;

  check_host();
  check_client(early);
  if (is_preflight()) {
    limit_body(small_body);
    early = preflight();
    return nullptr;
  }
  if (incoming_.method == "OPTIONS" && incoming_.path == "*") { // of the server as a whole
    limit_body(small_body);
    early.status = 204;
    early.headers = {{"allow", "GET, HEAD, POST, OPTIONS"}};
    return nullptr;
  }
  std::string allow;
  const route* where = nullptr;
  try {
    where = &find_route(incoming_.method, incoming_.path, allow);
  } catch (const api_error&) {
    if (!allow.empty())
      early.headers.emplace_back("allow", allow);
    throw;
  }
  route_name_ = where->path;
  if (!where->open)
    check_key(early);
  if (where->post)
    check_content(early);
  limit_body(where->post ? where->max_body_bytes : small_body);
  return where;
}

task<void> connection::refuse_and_close(response refusal) {
  close_ = true;
  co_await send(std::move(refusal));
  co_await linger();
}

} // namespace troupe::http
