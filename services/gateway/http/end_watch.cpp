#include "services/gateway/http/end_watch.hpp"

#include <poll.h>

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace troupe::http {

namespace asio = boost::asio;

using boost::system::error_code;

namespace {

/// How often a connection whose read-ahead is full is checked for its end.
constexpr auto full_buffer_look = std::chrono::milliseconds{100};

} // namespace

end_watch::end_watch(timed_stream& stream, std::size_t max_read_ahead)
    : stream_(stream),
      max_read_ahead_(max_read_ahead),
      look_timer_(stream.bytes().get_executor()),
      step_ended_(stream.bytes().get_executor()) {}

void end_watch::start(std::function<void()> ended, std::shared_ptr<void> owner) {
  on_end_ = std::move(ended);
  watching_ = true;
  if (time_is_up_ && on_end_)
    on_end_();
  step(std::move(owner));
}

task<void> end_watch::stop() {
  watching_ = false;
  on_end_ = nullptr;
  if (!in_step_)
    co_return;
  stream_.bytes().stop_reading();
  look_timer_.cancel();
  error_code ignored;
  while (in_step_) {
    step_ended_.expires_at(asio::steady_timer::time_point::max());
    co_await step_ended_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

void end_watch::note_end() {
  stream_.note_gone();
  if (watching_ && on_end_)
    on_end_();
}

void end_watch::hurry() {
  time_is_up_ = true;
  if (watching_ && on_end_)
    on_end_();
}

void end_watch::step(std::shared_ptr<void> owner) {
  if (stream_.buffer().size() >= max_read_ahead_)
    return look(std::move(owner));
  in_step_ = true;
  stream_.bytes().async_read_some(stream_.buffer().prepare(4096),
                                  [this, owner = std::move(owner)](error_code error, std::size_t bytes) {
                                    stream_.buffer().commit(bytes);
                                    if (error && watching_)
                                      note_end();
                                    else if (error && error != asio::error::operation_aborted)
                                      read_ended_ = true; // a later read would not tell it again
                                    step_done(owner);
                                  });
}

/// More bytes would have to stay in the socket, before the notice of its end: poll for the end alone.
void end_watch::look(std::shared_ptr<void> owner) {
  in_step_ = true;
  look_timer_.expires_after(full_buffer_look);
  look_timer_.async_wait([this, owner = std::move(owner)](error_code) {
    pollfd look{stream_.bytes().socket().native_handle(), POLLRDHUP, 0};
    if (watching_ && ::poll(&look, 1, 0) > 0)
      note_end();
    step_done(owner);
  });
}

void end_watch::step_done(std::shared_ptr<void> owner) {
  in_step_ = false;
  if (watching_ && !stream_.gone())
    step(std::move(owner));
  else
    step_ended_.cancel();
}

} // namespace troupe::http
