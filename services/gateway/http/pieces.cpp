#include "services/gateway/http/pieces.hpp"

#include "services/gateway/http/error_status.hpp"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>

namespace troupe::http {

namespace {

/// Pause before a retry, when the pool has no room for a piece.
constexpr auto pause = std::chrono::milliseconds{100};

} // namespace

task<std::string> text_in_pieces(exchange& client, background& work, std::function<bool(std::string&)> append,
                                 std::chrono::steady_clock::time_point deadline) {
  std::string text;
  bool is_complete = false;
  while (!is_complete) {
    bool has_room = true;
    try {
      // The source of the text is accounted for elsewhere.
      is_complete = co_await work.run(0, [&] { return append(text); });
    } catch (const pool_too_busy&) {
      has_room = false;
    }
    if (has_room)
      continue;
    if (std::chrono::steady_clock::now() > deadline)
      throw api_error_of(ec::overloaded, "no thread was free in time to write the answer");
    asio::steady_timer alarm{client.executor(), pause};
    boost::system::error_code ignored;
    co_await alarm.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
  co_return text;
}

} // namespace troupe::http
