#include "services/gateway/http/request_reader.hpp"

#include <algorithm>
#include <utility>

#include "services/gateway/http/background.hpp"
#include "services/gateway/http/header_check.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/http/read.hpp>

namespace troupe::http {

namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using openai::api_error;
using openai::invalid_request;
using std::chrono::steady_clock;

namespace {

constexpr const char* no_room = "too many large requests are being read";

std::string_view view(beast::string_view text) {
  return {text.data(), text.size()};
}

bool is_of_http(const beast::error_code& error) {
  return error.category() == bhttp::make_error_code(bhttp::error::bad_method).category()
         && error != bhttp::error::end_of_stream && error != bhttp::error::partial_message;
}

} // namespace

request_reader::request_reader(const api& shared, connection_context& context, timed_stream& stream,
                               const end_watch& watch)
    : shared_(shared),
      context_(context),
      stream_(stream),
      watch_(watch),
      header_deadline_(steady_clock::now() + context.config.limits.header) {}

request_reader::~request_reader() {
  account(0);
}

task<bool> request_reader::wait() {
  const auto& limits = context_.config.limits;
  if (stream_.draining() || stream_.gone())
    co_return false;
  if (has_begun()) {
    header_deadline_ = steady_clock::now() + limits.header;
    co_return true;
  }
  // A new connection has the time of a header, because its client has connected to send one.
  const auto deadline = has_asked_ ? steady_clock::now() + limits.idle : header_deadline_;
  while (!has_begun()) {
    if (watch_.read_ended())
      co_return false;
    const bool more = co_await stream_.read_more(deadline);
    if (!more)
      co_return false;
  }
  if (has_asked_)
    header_deadline_ = steady_clock::now() + limits.header;
  co_return true;
}

/// Skips empty lines: some clients end a body with a line end of their own (RFC 9112, section 2.2).
bool request_reader::has_begun() {
  auto& buffer = stream_.buffer();
  const auto text = [&buffer] {
    return std::string_view{static_cast<const char*>(buffer.data().data()), buffer.size()};
  };
  while (text().starts_with("\r\n"))
    buffer.consume(2);
  return !text().empty() && text() != "\r";
}

task<bool> request_reader::read_header(served_request& request) {
  const auto& limits = context_.config.limits;
  body_limit_ = limits.max_body_bytes;
  parser_.emplace();
  parser_->header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
  parser_->body_limit(body_limit_);
  beast::error_code error;
  {
    const timed_stream::time_limit limit(stream_, header_deadline_);
    co_await bhttp::async_read_header(stream_.bytes(), stream_.buffer(), *parser_,
                                      redirect_error(use_awaitable, error));
  }
  note_header(header(), request);
  has_asked_ = has_asked_ || !error;
  if (error == bhttp::error::header_limit)
    throw api_error(431, "invalid_request_error",
                    "the request header is larger than " + std::to_string(limits.max_header_bytes)
                        + " bytes");
  if (error == bhttp::error::body_limit)
    throw too_large();
  if (error && stream_.timed_out())
    context_.metrics.client_gone(true); // its stream is closed, so that no answer reaches it
  else if (is_of_http(error))
    throw invalid_request("malformed HTTP request: " + error.message());
  co_return !error;
}

request_header request_reader::header() const {
  const auto& message = parser_->get();
  request_header header{view(message.method_string()),
                        view(message.target()),
                        message.version() < 11,
                        message.keep_alive(),
                        {}};
  for (const auto& field : message)
    header.fields.emplace_back(view(field.name_string()), view(field.value()));
  return header;
}

void request_reader::limit_body(std::size_t most) {
  body_limit_ = std::min(most, body_limit_);
  parser_->body_limit(body_limit_); // of chunks
  if (const auto length = parser_->content_length(); length && *length > body_limit_)
    throw too_large();
}

bool request_reader::has_large_body() const {
  if (parser_->is_done())
    return false;
  const auto length = parser_->content_length();
  return parser_->get().count(bhttp::field::expect) > 0 || parser_->chunked()
         || (length && *length > small_body);
}

bool request_reader::awaits_leave() const {
  if (parser_->is_done())
    return false;
  const auto length = parser_->content_length();
  if (length && context_.buffered_body_bytes + *length > context_.config.limits.max_buffered_body_bytes)
    throw refused_for_room(shared_, no_room);
  return parser_->get().count(bhttp::field::expect) > 0 && stream_.buffer().size() == 0;
}

task<bool> request_reader::read_body(std::string& body) {
  const auto deadline = steady_clock::now() + context_.config.limits.body;
  std::optional<api_error> refusal;
  while (!parser_->is_done() && !refusal) {
    beast::error_code error;
    {
      const timed_stream::time_limit limit(stream_, deadline);
      co_await bhttp::async_read_some(stream_.bytes(), stream_.buffer(), *parser_,
                                      redirect_error(use_awaitable, error));
    }
    if (error && error != bhttp::error::body_limit && !is_of_http(error)) {
      context_.metrics.client_gone(stream_.timed_out());
      co_return false;
    }
    if (error == bhttp::error::body_limit)
      refusal = too_large();
    else if (error)
      refusal = invalid_request("malformed HTTP body: " + error.message());
    else if (!account(parser_->get().body().size()))
      refusal = refused_for_room(shared_, no_room);
  }
  if (refusal) {
    drop(parser_->get().body()); // before the client is told, which may take a while
    throw std::move(*refusal);
  }
  body = std::move(parser_->get().body());
  co_return true;
}

task<void> request_reader::decode(served_request& request) {
  std::string& body = request.incoming.body;
  if (request.coding == content_coding::identity || body.empty())
    co_return;
  std::string decoded = co_await shared_.work.run(
      body.size(), [&] { return decode_content(body, request.coding, body_limit_); });
  body = std::move(decoded);
  if (!account(body.size()))
    throw refused_for_room(shared_, no_room);
}

void request_reader::drop(std::string& body) {
  std::string{}.swap(body); // assigning an empty string would keep the memory
  account(0);
}

/// @returns whether the bodies of all connections have room
bool request_reader::account(std::size_t bytes) {
  // Only the difference, so that other connections never see a sum that was not there.
  if (bytes > accounted_bytes_)
    context_.buffered_body_bytes += bytes - accounted_bytes_;
  else
    context_.buffered_body_bytes -= accounted_bytes_ - bytes;
  accounted_bytes_ = bytes;
  return context_.buffered_body_bytes <= context_.config.limits.max_buffered_body_bytes;
}

api_error request_reader::too_large() const {
  return {413, "invalid_request_error",
          "the request body is larger than " + std::to_string(body_limit_) + " bytes"};
}

} // namespace troupe::http
