#include "services/gateway/http/timed_stream.hpp"

#include <array>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace troupe::http {

namespace asio = boost::asio;

using asio::redirect_error;
using asio::use_awaitable;
using boost::system::error_code;

namespace {

/// After an answer to a request that was not read to its end. If the socket were closed at once, the kernel
/// would discard the answer, because many clients write a whole body before they look for an answer.
constexpr auto linger_time = std::chrono::seconds{5};
constexpr std::size_t linger_bytes = 64 << 20;
/// For close_notify of TLS to find room in the socket.
constexpr auto goodbye_time = std::chrono::seconds{1};

} // namespace

timed_stream::time_limit::time_limit(timed_stream& of, clock::time_point end) : of_(of) {
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

timed_stream::time_limit::~time_limit() {
  ++of_.limit_number_; // its handler may be queued already
  of_.limit_timer_.cancel();
}

timed_stream::timed_stream(client_stream::tcp_socket socket, const tls_identity* identity,
                           std::size_t max_buffered)
    : stream_(std::move(socket), identity), limit_timer_(stream_.get_executor()), buffer_(max_buffered) {}

task<bool> timed_stream::read_more(clock::time_point deadline) {
  const time_limit limit(*this, deadline);
  error_code error;
  const std::size_t bytes =
      co_await stream_.async_read_some(buffer_.prepare(4096), redirect_error(use_awaitable, error));
  buffer_.commit(bytes);
  co_return !error && !timed_out_;
}

void timed_stream::drain() {
  draining_ = true;
  if (idle_)
    stream_.stop_reading();
}

task<void> timed_stream::say_goodbye() {
  if (gone_)
    co_return;
  idle_ = false;
  const time_limit limit(*this, clock::now() + goodbye_time);
  co_await stream_.finish();
}

task<void> timed_stream::linger() {
  co_await say_goodbye();
  const time_limit limit(*this, clock::now() + linger_time);
  error_code error;
  std::array<char, 16384> sink{};
  for (std::size_t total = 0; !error && total < linger_bytes;)
    total +=
        co_await stream_.socket().async_read_some(asio::buffer(sink), redirect_error(use_awaitable, error));
}

} // namespace troupe::http
