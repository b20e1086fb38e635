// The half of a connection that answers, and watches for the client's end meanwhile.
#include <poll.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "services/gateway/http/connection.hpp"
#include "services/metrics/http_date.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

namespace troupe::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace bhttp = boost::beast::http;
using asio::redirect_error;
using asio::use_awaitable;

namespace {

/// How often a connection whose read-ahead is full is looked at for its end.
constexpr auto full_buffer_look = std::chrono::milliseconds{100};

/// What pages of other origins may read.
constexpr const char* exposed_headers =
    "x-request-id, x-troupe-seed, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
    "x-ratelimit-reset-tokens";

/// Status line and header fields, up to the body.
template <class Message>
std::string head_of(const Message& message) {
  std::ostringstream head;
  head << message.base();
  return head.str();
}

} // namespace

bool connection::keeps_alive() const {
  return keep_alive_ && !close_ && !draining_ && !shared_.draining;
}

bool connection::origin_is_allowed() const {
  const auto& origins = shared_.config.allowed_origins;
  return !origin_.empty() && std::any_of(origins.begin(), origins.end(), [this](const std::string& allowed) {
    return allowed == "*" || allowed == origin_;
  });
}

template <class Fields>
void connection::add_common_headers(Fields& fields, const header_list& own) const {
  fields.set(bhttp::field::server, "troupe");
  fields.set(bhttp::field::date, metrics::http_date());
  fields.set("x-request-id", incoming_.id);
  const auto& origins = shared_.config.allowed_origins;
  const bool all = std::find(origins.begin(), origins.end(), "*") != origins.end();
  if (origin_is_allowed()) {
    fields.set(bhttp::field::access_control_allow_origin, all ? "*" : origin_);
    fields.set(bhttp::field::access_control_expose_headers, exposed_headers);
  }
  // For caches: what one origin got is not for another, nor for a request without one.
  if (!origins.empty() && !all)
    fields.set(bhttp::field::vary, "origin");
  for (const auto& [name, value] : shared_.usage.headers(incoming_.key_name))
    fields.set(name, value);
  for (const auto& [name, value] : own)
    fields.set(name, value);
}

task<void> connection::send(response answer) {
  if (answered_ || gone_) {
    close_ = true;
    co_return;
  }
  answered_ = true;
  record_.status = answer.status;
  record_.error = answer.error;
  bhttp::response<bhttp::empty_body> message;
  message.result(answer.status);
  message.version(http_1_0_ ? 10 : 11);
  if (answer.status != 204)
    message.set(bhttp::field::content_type, answer.content_type);
  add_common_headers(message, answer.headers);
  message.keep_alive(keeps_alive());
  if (answer.status != 204)
    message.content_length(answer.body.size());
  std::string_view rest = answer.body;
  if (head_)
    rest = {};
  // The head does not travel alone, and is small enough to be copied together with what follows.
  std::string first = head_of(message);
  first += rest.substr(0, part_bytes);
  rest.remove_prefix(std::min(part_bytes, rest.size()));
  bool taken = co_await write_bytes(first);
  if (taken)
    taken = co_await write_parts(rest);
  if (!taken)
    shared_.metrics->client_gone(too_slow_);
  shared_.metrics->responded(route_name_, answer.status);
}

task<bool> connection::begin_stream(std::string content_type, header_list headers) {
  answered_ = true;
  record_.status = 200;
  chunked_ = !http_1_0_;
  bhttp::response<bhttp::empty_body> message;
  message.result(bhttp::status::ok);
  message.version(http_1_0_ ? 10 : 11);
  message.set(bhttp::field::content_type, content_type);
  add_common_headers(message, headers);
  // Without chunks only the end of the connection ends the answer.
  if (!chunked_)
    close_ = true;
  message.keep_alive(keeps_alive());
  if (chunked_)
    message.chunked(true);
  stream_head_ = head_of(message);
  shared_.metrics->responded(route_name_, 200);
  co_return !gone_;
}

task<bool> connection::write(std::string more) {
  std::string bytes = std::move(stream_head_);
  stream_head_.clear();
  if (chunked_) {
    char size[20];
    std::snprintf(size, sizeof size, "%zx\r\n", more.size());
    bytes += size;
    bytes += more;
    bytes += "\r\n";
  } else {
    bytes += more;
  }
  const bool written = co_await write_parts(bytes);
  co_return written;
}

task<void> connection::end_stream() {
  if (chunked_) {
    const std::string last_chunk = "0\r\n\r\n";
    co_await write_bytes(last_chunk);
  }
}

/// Each part has a write's time.
task<bool> connection::write_parts(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::string_view part = bytes.substr(0, part_bytes);
    bytes.remove_prefix(part.size());
    const bool taken = co_await write_bytes(part);
    if (!taken)
      co_return false;
  }
  co_return true;
}

task<bool> connection::write_bytes(std::string_view bytes) {
  if (gone_)
    co_return false;
  const time_limit limit(*this, std::chrono::steady_clock::now() + limits_.bounds.write);
  beast::error_code error;
  record_.bytes += co_await asio::async_write(stream_, asio::buffer(bytes.data(), bytes.size()),
                                              redirect_error(use_awaitable, error));
  record_.total_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  if (error) {
    too_slow_ = too_slow_ || timed_out_;
    note_end();
  }
  co_return !error;
}

/// The one hook of the access log: a request's answer has ended, or there will be none.
void connection::tell_access() {
  if (!shared_.config.access || (record_.method.empty() && !answered_))
    return;
  if (!answered_)
    record_.status = 499; // as nginx says it
  if (gone_ && record_.error.empty())
    record_.error = too_slow_ ? "the client did not read in time" : "the client left before the end";
  if (!answered_ || gone_)
    record_.total_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
  if (record_.client.empty())
    record_.client = client_;
  record_.key_name = incoming_.key_name;
  record_.request_id = incoming_.id;
  record_.traceparent = incoming_.traceparent;
  shared_.config.access(record_);
}

void connection::note_end() {
  gone_ = true;
  if (watching_ && on_end_)
    on_end_();
}

void connection::watch(std::function<void()> ended) {
  on_end_ = std::move(ended);
  watching_ = true;
  if (time_is_up_ && on_end_)
    on_end_();
  watch_on();
}

void connection::watch_on() {
  if (buffer_.size() >= limits_.bounds.max_pipelined_bytes)
    return watch_full_buffer();
  watch_step_ = true;
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](beast::error_code error, size_t bytes) {
                            self->buffer_.commit(bytes);
                            if (error && self->watching_)
                              self->note_end();
                            else if (error && error != asio::error::operation_aborted)
                              self->read_ended_ = true; // it is told once only
                            self->watch_step_done();
                          });
}

/// What the client sends further stays in the socket, and with it the notice of its end: ask for that alone.
void connection::watch_full_buffer() {
  watch_step_ = true;
  watch_timer_.expires_after(full_buffer_look);
  watch_timer_.async_wait([self = shared_from_this()](beast::error_code) {
    pollfd look{self->stream_.socket().native_handle(), POLLRDHUP, 0};
    if (self->watching_ && ::poll(&look, 1, 0) > 0)
      self->note_end();
    self->watch_step_done();
  });
}

void connection::watch_step_done() {
  watch_step_ = false;
  if (watching_ && !gone_)
    watch_on();
  else
    watch_ended_.cancel();
}

task<void> connection::unwatch() {
  watching_ = false;
  on_end_ = nullptr;
  if (!watch_step_)
    co_return;
  stream_.stop_reading();
  beast::error_code ignored;
  watch_timer_.cancel();
  while (watch_step_) {
    watch_ended_.expires_at(asio::steady_timer::time_point::max());
    co_await watch_ended_.async_wait(redirect_error(use_awaitable, ignored));
  }
}

} // namespace troupe::http
