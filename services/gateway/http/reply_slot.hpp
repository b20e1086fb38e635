// Lets a coroutine wait for one answer that a callback brings from another thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

/// A place for one answer. A late callback does nothing, even if slot and executor are gone.
template <class Answer>
class reply_slot {
 public:
  explicit reply_slot(const boost::asio::any_io_executor& executor)
      : alarm_(std::make_shared<boost::asio::steady_timer>(executor)), state_(std::make_shared<state>()) {
    state_->executor = executor;
    state_->alarm = alarm_;
  }

  ~reply_slot() {
    const std::lock_guard lock{state_->mutex};
    state_->alarm.reset();
    state_->executor = boost::asio::any_io_executor{};
  }

  reply_slot(const reply_slot&) = delete;
  reply_slot& operator=(const reply_slot&) = delete;

  /// The function to call with the answer, from any thread.
  std::function<void(Answer)> callback() const {
    return [state = state_](Answer answer) {
      const std::lock_guard lock{state->mutex};
      if (state->alarm == nullptr)
        return;
      state->answer = std::move(answer);
      boost::asio::post(state->executor, [alarm = state->alarm] { alarm->cancel(); });
    };
  }

  /// The answer; empty: there is none after `patience`.
  task<std::optional<Answer>> wait(std::chrono::milliseconds patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    for (;;) {
      {
        const std::lock_guard lock{state_->mutex};
        if (state_->answer || std::chrono::steady_clock::now() >= deadline)
          co_return std::move(state_->answer);
      }
      alarm_->expires_at(deadline);
      boost::system::error_code cancelled;
      co_await alarm_->async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, cancelled));
    }
  }

 private:
  struct state {
    std::mutex mutex;
    boost::asio::any_io_executor executor;
    std::shared_ptr<boost::asio::steady_timer> alarm;
    std::optional<Answer> answer;
  };

  std::shared_ptr<boost::asio::steady_timer> alarm_;
  std::shared_ptr<state> state_;
};

} // namespace troupe::http
