// The part of a connection that reads and decodes bodies.
#include <utility> // before Asio: its coroutine headers of Boost 1.74 need std::exchange

#include "services/gateway/http/background.hpp"
#include "services/gateway/http/connection.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace troupe::http {

namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;
using openai::api_error;
using openai::invalid_request;

namespace {

/// What a client is told whose body finds no room among those of others.
constexpr const char* no_room = "too many large requests are being read";

} // namespace

bool connection::has_large_body() const {
  const auto& message = parser_->get();
  if (parser_->is_done())
    return false;
  const auto length = parser_->content_length();
  return message.count(bhttp::field::expect) > 0 || parser_->chunked() || (length && *length > small_body);
}

/// For requests that have no use for a body, or for a large one: many of them need no key, and their bodies
/// must not take the room of others.
/// @throws api_error 413 when a larger one is announced
void connection::limit_body(size_t most) {
  body_limit_ = std::min(most, body_limit_);
  parser_->body_limit(body_limit_); // of chunks
  if (const auto length = parser_->content_length(); length && *length > body_limit_)
    throw too_large();
}

bool connection::account_body(size_t bytes) {
  // Only the difference, so that others never see a sum that was not there.
  if (bytes > accounted_bytes_)
    limits_.buffered_body_bytes += bytes - accounted_bytes_;
  else
    limits_.buffered_body_bytes -= accounted_bytes_ - bytes;
  accounted_bytes_ = bytes;
  return limits_.buffered_body_bytes <= limits_.bounds.max_buffered_body_bytes;
}

void connection::drop_body() {
  std::string{}.swap(incoming_.body); // an empty one that is assigned would leave it its memory
  account_body(0);
}

/// Room for the body, and the client's leave to send it. The room is taken as bytes arrive: a length that is
/// only announced keeps nobody out.
task<bool> connection::prepare_body() {
  const auto length = parser_->content_length();
  if (length && limits_.buffered_body_bytes + *length > limits_.bounds.max_buffered_body_bytes) {
    const api_error full = refused_for_room(shared_, no_room);
    co_await refuse_and_close(error_response(full));
    co_return false;
  }
  if (parser_->get().count(bhttp::field::expect) > 0 && buffer_.size() == 0) {
    const std::string go_on = "HTTP/1.1 100 Continue\r\n\r\n";
    const bool written = co_await write_bytes(go_on);
    co_return written;
  }
  co_return true;
}

task<bool> connection::read_body() {
  if (!parser_->is_done()) {
    const bool prepared = co_await prepare_body();
    if (!prepared)
      co_return false;
  }
  const auto deadline = std::chrono::steady_clock::now() + limits_.bounds.body;
  std::optional<api_error> refusal;
  while (!parser_->is_done() && !refusal) {
    beast::error_code error;
    {
      const time_limit limit(*this, deadline);
      co_await bhttp::async_read_some(stream_, buffer_, *parser_, redirect_error(use_awaitable, error));
    }
    if (error == bhttp::error::body_limit) {
      refusal = too_large();
    } else if (error == bhttp::error::end_of_stream || error == bhttp::error::partial_message
               || error.category() != bhttp::make_error_code(bhttp::error::bad_method).category()) {
      if (error) {
        shared_.metrics->client_gone(timed_out_);
        co_return false;
      }
    } else {
      refusal = invalid_request("malformed HTTP body: " + error.message());
    }
    if (!refusal && !account_body(parser_->get().body().size()))
      refusal = refused_for_room(shared_, no_room);
  }
  if (refusal) {
    std::string{}.swap(parser_->get().body());
    account_body(0); // before the client has been told, which may take a while
    co_await refuse_and_close(error_response(*refusal));
    co_return false;
  }
  incoming_.body = std::move(parser_->get().body());
  co_return true;
}

/// Decoding is no work for an I/O thread. The body counts as what it has become from then on.
/// @throws api_error 400, 413 or 429; background::too_busy
task<void> connection::decode_body() {
  if (coding_ == content_coding::identity || incoming_.body.empty())
    co_return;
  std::string decoded = co_await shared_.work.run(
      incoming_.body.size(), [this] { return decode_content(incoming_.body, coding_, body_limit_); });
  incoming_.body = std::move(decoded);
  if (!account_body(incoming_.body.size()))
    throw refused_for_room(shared_, no_room);
}

api_error connection::too_large() const {
  return {413, "invalid_request_error",
          "the request body is larger than " + std::to_string(body_limit_) + " bytes"};
}

} // namespace troupe::http
