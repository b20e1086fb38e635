// A connection from its TLS handshake to its end.
#include <array>

#include "services/gateway/http/bare_answer.hpp"
#include "services/gateway/http/connection.hpp"
#include "services/options/option_parser.hpp"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <openssl/err.h>
#include <openssl/sslerr.h>

namespace troupe::http {

namespace asio = boost::asio;
using asio::redirect_error;
using asio::use_awaitable;
using boost::system::error_code;
using std::chrono::steady_clock;

namespace {

/// After an answer to a request that was not read to its end: closing at once would make the kernel throw the
/// answer away, so what still comes is read for a while; many clients write a whole body before they look for
/// an answer.
constexpr auto linger_time = std::chrono::seconds{5};
constexpr size_t linger_bytes = 64 << 20;
/// For TLS's last words to find room in the socket.
constexpr auto goodbye_time = std::chrono::seconds{1};
/// What one read may bring.
constexpr size_t read_bytes = 64 << 10;

bool is_plain_http(const error_code& error) {
  if (error.category() != asio::error::get_ssl_category())
    return false;
  const int reason = ERR_GET_REASON(static_cast<unsigned long>(error.value()));
  return reason == SSL_R_HTTP_REQUEST || reason == SSL_R_HTTPS_PROXY_REQUEST;
}

} // namespace

connection::time_limit::time_limit(connection& of, steady_clock::time_point end) : of_(of) {
  of_.limit_timer_.expires_at(end);
  of_.limit_timer_.async_wait(
      [self = of_.shared_from_this(), number = of_.limit_number_](error_code cancelled) {
        if (cancelled || number != self->limit_number_)
          return;
        self->timed_out_ = true;
        if (self->idle_)
          self->stream_.stop_reading();
        else
          self->stream_.close();
      });
}

connection::time_limit::~time_limit() {
  ++of_.limit_number_; // it may have run out by now
  of_.limit_timer_.cancel();
}

connection::connection(asio::ip::tcp::socket socket, api& shared, connection_limits& limits,
                       std::unique_ptr<connection_table::place> place, const network_address& peer)
    : stream_(std::move(socket), shared.tls.get().get()),
      limit_timer_(stream_.get_executor()),
      // Bounded, because a chunk's extensions must fit as a whole.
      buffer_(limits.bounds.max_pipelined_bytes + limits.bounds.max_header_bytes + read_bytes),
      shared_(shared),
      limits_(limits),
      place_(std::move(place)),
      peer_(peer),
      header_deadline_(steady_clock::now() + limits.bounds.header),
      watch_timer_(stream_.get_executor()),
      watch_ended_(stream_.get_executor()) {
  shared_.metrics->connection_opened();
  error_code unknown;
  if (const auto from = stream_.socket().remote_endpoint(unknown); !unknown)
    client_ = host_port_text(from.address().to_string(), from.port());
}

connection::~connection() {
  account_body(0);
  shared_.metrics->connection_closed();
}

task<void> connection::run() {
  const auto self = shared_from_this();
  bool more = co_await shake_hands();
  while (more) {
    more = co_await wait_for_request();
    if (!more)
      break;
    idle_ = false;
    more = co_await serve_request();
    tell_access();
    idle_ = true;
    ticket_.reset();
    place_->end_request();
    drop_body();
  }
  co_await say_goodbye();
  stream_.close();
  place_.reset();
}

void connection::drain() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    if (self->idle_)
      self->stream_.stop_reading();
  });
}

void connection::hurry() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->time_is_up_ = true;
    if (self->watching_ && self->on_end_)
      self->on_end_();
  });
}

void connection::cut() {
  asio::post(stream_.get_executor(), [self = shared_from_this()] {
    self->draining_ = true;
    self->stream_.close();
    self->note_end();
  });
}

task<bool> connection::shake_hands() {
  if (!stream_.has_tls())
    co_return true;
  error_code error;
  {
    const time_limit limit(*this, header_deadline_);
    error = co_await stream_.handshake();
  }
  if (error)
    note_failed_handshake(error);
  if (error && is_plain_http(error))
    co_await answer_plain_http();
  co_return !error;
}

void connection::note_failed_handshake(const error_code& error) {
  if (draining_)
    return; // our own doing
  const bool protocol = error.category() == asio::error::get_ssl_category();
  const char* const reason = timed_out_             ? "timeout"
                             : is_plain_http(error) ? "plain_http"
                             : protocol             ? "protocol"
                                                    : "left";
  shared_.metrics->handshake_failed(reason);
  if (shared_.config.handshake_failed)
    shared_.config.handshake_failed(client_, timed_out_ ? "no handshake in time" : error.message());
}

/// To who speaks plain HTTP where TLS is spoken, in its own language.
task<void> connection::answer_plain_http() {
  idle_ = false;
  const response refusal = error_response(openai::api_error(
      400, "invalid_request_error", "This port speaks TLS: begin the URL with https://", {}, "tls_expected"));
  const std::string bytes = bare_answer(shared_, refusal);
  record_.method = record_.path = "-"; // not read
  record_.status = refusal.status;
  record_.error = refusal.error;
  answered_ = true;
  {
    const time_limit limit(*this, steady_clock::now() + limits_.bounds.write);
    error_code ignored;
    record_.bytes += co_await asio::async_write(stream_.socket(), asio::buffer(bytes),
                                                redirect_error(use_awaitable, ignored));
  }
  tell_access();
  co_await linger();
}

/// An answer that is complete is told from one that was cut. A client that has gone, or was too slow, is told
/// nothing.
task<void> connection::say_goodbye() {
  if (gone_)
    co_return;
  idle_ = false;
  const time_limit limit(*this, steady_clock::now() + goodbye_time);
  co_await stream_.finish();
}

task<void> connection::linger() {
  co_await say_goodbye();
  const time_limit limit(*this, steady_clock::now() + linger_time);
  error_code error;
  std::array<char, 16384> sink{};
  for (size_t total = 0; !error && total < linger_bytes;)
    total +=
        co_await stream_.socket().async_read_some(asio::buffer(sink), redirect_error(use_awaitable, error));
}

} // namespace troupe::http
