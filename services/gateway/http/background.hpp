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
#include <thread>
#include <utility>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "services/gateway/http/exchange.hpp"
#include "services/gateway/http/gateway_metrics.hpp"
#include "services/gateway/http/pool_progress.hpp"
#include "services/gateway/text/work_limit.hpp"

namespace troupe::http {

namespace asio = boost::asio;

/// A bounded queue in front of a few threads. Short jobs overtake long ones: a job is sorted as if it had
/// arrived one second later for each MiB that it holds, so that no job waits for ever. Of several threads the
/// first takes only jobs of up to short_bytes, so that long jobs never occupy all threads.
class background {
 public:
  /// Set by cancel().
  using cancellation = std::shared_ptr<std::atomic<bool>>;

  using clock = std::chrono::steady_clock;

  static constexpr std::size_t short_bytes = 64 << 10;

  using progress = pool_progress;

  /// @param max_bytes   bytes that waiting and running jobs may hold together; beyond it run() throws
  /// pool_too_busy. A single job is always taken
  /// @param time_limit  of a job, from its start (text::limited_work)
  background(std::size_t num_threads, std::size_t max_bytes, std::chrono::milliseconds time_limit,
             std::shared_ptr<gateway_metrics> metrics);
  ~background();
  background(const background&) = delete;
  background& operator=(const background&) = delete;

  /// Runs `work` on a thread of the pool. The coroutine continues on its own executor with the result or the
  /// exception.
  /// @param num_bytes  bytes that the job holds; a KiB is added for the job itself
  /// @param cancelled  a false flag, for cancel(); null: the job cannot be cancelled
  template <class Work>
  task<std::invoke_result_t<Work>> run(std::size_t num_bytes, Work work, cancellation cancelled = nullptr) {
    using result_type = std::invoke_result_t<Work>;
    const std::size_t charge = take_room(num_bytes);
    std::optional<result_type> result;
    std::exception_ptr failure;
    const auto initiate = [&](auto handler) {
      // The coroutine stays until its handler is called, and with it everything captured by reference.
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

  /// Ends a job with text::work_cancelled: at once if it waits, at its next check of the limit if it runs.
  void cancel(const cancellation& which);

  progress now() const;

  /// Drops waiting jobs, and waits for running ones, which end at their next check of the limit.
  void stop();

 private:
  struct job {
    virtual ~job() = default;
    /// Does the work, or reports that it was cancelled. False: the work has thrown.
    virtual bool finish(bool wanted) noexcept = 0;
    /// Resumes the coroutine. The last call.
    virtual void resume() = 0;

    std::size_t charge = 0;
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

  std::size_t take_room(std::size_t num_bytes);
  void free_room(std::size_t charge);
  void push(std::unique_ptr<job> fresh, std::size_t charge, cancellation cancelled);
  queue::iterator next_for(bool only_short);
  void work(bool only_short);
  text_end run_one(job& taken, const cancellation& cancelled) const;
  void tell_counts() const;

  const std::size_t max_bytes_;
  const std::chrono::milliseconds time_limit_;
  const std::shared_ptr<gateway_metrics> metrics_;
  std::atomic<std::size_t> held_bytes_{0};
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  queue waiting_; // by time of their turn
  std::list<running_job> running_;
  clock::time_point last_end_ = clock::now();
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

} // namespace troupe::http
