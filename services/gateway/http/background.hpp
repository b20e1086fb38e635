// Work that takes too long for an I/O thread: tokenizing, rendering chat templates.
#pragma once

#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "services/gateway/http/exchange.hpp"

namespace troupe::http {

namespace asio = boost::asio;

/// A bounded queue in front of a few threads.
class background {
 public:
  /// @param max_bytes  what the jobs that wait or run may hold together; beyond it run() throws too_busy. A
  ///                   job by itself is always taken
  background(size_t num_threads, size_t max_bytes) : pool_(num_threads), max_bytes_(max_bytes) {}

  ~background() { stop(); }

  struct too_busy : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  /// Runs `work` on a thread of the pool; the coroutine goes on, on its own executor, with the result or the
  /// exception.
  /// @param num_bytes  what the job holds; a KiB is added for the rest of it
  template <class Work>
  task<std::invoke_result_t<Work>> run(size_t num_bytes, Work work) {
    using result_type = std::invoke_result_t<Work>;
    const size_t charge = num_bytes + 1024;
    if (const size_t before = held_bytes_.fetch_add(charge); before > 0 && before + charge > max_bytes_) {
      held_bytes_.fetch_sub(charge);
      throw too_busy("requests of " + std::to_string(before >> 20) + " MiB are being read already");
    }
    std::optional<result_type> result;
    std::exception_ptr failure;
    const auto initiate = [&](auto handler) {
      // The coroutine, and so everything captured by reference, stays until its handler is called.
      asio::post(pool_, [this, charge, &work, &result, &failure, handler = std::move(handler)]() mutable {
        try {
          result.emplace(work());
        } catch (...) {
          failure = std::current_exception();
        }
        held_bytes_.fetch_sub(charge);
        const auto executor = asio::get_associated_executor(handler);
        asio::post(executor, std::move(handler));
      });
    };
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(initiate, asio::use_awaitable);
    if (failure)
      std::rethrow_exception(failure);
    co_return std::move(*result);
  }

  /// Waits for what runs; drops what waits.
  void stop() {
    pool_.stop();
    pool_.join();
  }

 private:
  boost::asio::thread_pool pool_;
  const size_t max_bytes_;
  std::atomic<size_t> held_bytes_{0};
};

} // namespace troupe::http
