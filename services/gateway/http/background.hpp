// Work that takes too long for an I/O thread: tokenizing, rendering chat templates, decoding bodies.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <exception>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "services/gateway/http/exchange.hpp"
#include "services/gateway/http/pool_progress.hpp"
#include "services/gateway/metrics.hpp"
#include "services/gateway/text/work_limit.hpp"

namespace troupe::http {

namespace asio = boost::asio;

/// A bounded queue in front of a few threads. Short jobs go before long ones: a job waits as if it had come
/// later by a second for each MiB that it holds, so that none waits for ever. Of several threads the first
/// takes only jobs of up to short_bytes, so that long ones never have all of them.
class background {
 public:
  /// Set by cancel().
  using cancellation = std::shared_ptr<std::atomic<bool>>;

  using clock = std::chrono::steady_clock;

  static constexpr size_t short_bytes = 64 << 10;

  using progress = pool_progress;

  /// @param max_bytes what the jobs that wait or run may hold together; beyond it run() throws too_busy. A
  /// job by itself is always taken
  /// @param time_limit  for a job, from when it begins to run (text::limited_work)
  background(size_t num_threads, size_t max_bytes, std::chrono::milliseconds time_limit,
             std::shared_ptr<gateway_metrics> metrics);
  ~background();
  background(const background&) = delete;
  background& operator=(const background&) = delete;

  struct too_busy : std::runtime_error {
    using std::runtime_error::runtime_error;
  };

  /// Runs `work` on a thread of the pool; the coroutine goes on, on its own executor, with the result or the
  /// exception.
  /// @param num_bytes  what the job holds; a KiB is added for the rest of it
  /// @param cancelled  false, for cancel(); null: the job is not to be cancelled
  template <class Work>
  task<std::invoke_result_t<Work>> run(size_t num_bytes, Work work, cancellation cancelled = nullptr) {
    using result_type = std::invoke_result_t<Work>;
    const size_t charge = take_room(num_bytes);
    std::optional<result_type> result;
    std::exception_ptr failure;
    const auto initiate = [&](auto handler) {
      // The coroutine, and so everything captured by reference, stays until its handler is called.
      auto body = [&work, &result, &failure](bool wanted) {
        try {
          if (!wanted)
            throw text::work_cancelled();
          result.emplace(work());
        } catch (...) {
          failure = std::current_exception();
        }
        return failure == nullptr;
      };
      push(std::make_unique<job_of<decltype(body), decltype(handler)>>(std::move(body), std::move(handler)),
           charge, cancelled);
    };
    co_await asio::async_initiate<const asio::use_awaitable_t<>, void()>(initiate, asio::use_awaitable);
    if (failure)
      std::rethrow_exception(failure);
    co_return std::move(*result);
  }

  /// Nobody wants this job any more: one that waits ends with text::work_cancelled, one that runs ends
  /// likewise when it next looks.
  void cancel(const cancellation& which);

  progress now() const;

  /// Lets what runs end, at once where it looks at its limit; drops what waits.
  void stop();

 private:
  struct job {
    virtual ~job() = default;
    /// Does the work, or, where it is not wanted, says so. False when it throws.
    virtual bool finish(bool wanted) noexcept = 0;
    /// Lets the coroutine go on. The last call.
    virtual void resume() = 0;

    size_t charge = 0;
    clock::time_point came;
    cancellation cancelled;
  };

  template <class Body, class Handler>
  struct job_of final : job {
    job_of(Body work, Handler then) : body(std::move(work)), handler(std::move(then)) {}

    bool finish(bool wanted) noexcept override { return body(wanted); }

    void resume() override {
      const auto executor = asio::get_associated_executor(handler);
      asio::post(executor, std::move(handler));
    }

    Body body;
    Handler handler;
  };

  using queue = std::multimap<clock::time_point, std::unique_ptr<job>>;

  struct running_job {
    cancellation cancelled;
    clock::time_point since;
  };

  size_t take_room(size_t num_bytes);
  void free_room(size_t charge);
  void push(std::unique_ptr<job> fresh, size_t charge, cancellation cancelled);
  queue::iterator next_for(bool only_short);
  void work(bool only_short);
  text_end run_one(job& taken, const cancellation& cancelled) const;
  void tell_counts() const;

  const size_t max_bytes_;
  const std::chrono::milliseconds time_limit_;
  const std::shared_ptr<gateway_metrics> metrics_;
  std::atomic<size_t> held_bytes_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  queue waiting_; // by when its turn is
  std::list<running_job> running_;
  clock::time_point last_end_ = clock::now();
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

} // namespace troupe::http
