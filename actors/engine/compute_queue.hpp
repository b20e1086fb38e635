// Where a process computes: steps in the order they came, one at a time, each on all threads of the kernels'
// pool.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>

#include "kernels/context.hpp"
#include "kernels/isa.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe {

/// Attention and expert engines of one process share a queue, so that the process never computes on more
/// threads than it was given. Its length is bounded by what the actors keep in flight: micro-batches and
/// expert steps.
///
/// A queue has a thread of its own, and to wake it takes up to 50 us. So where nothing else is to be computed
/// and steps have been short lately, the thread that runs the submitting actor is borrowed for the step if it
/// lets itself be (`follow_up`). Either way the actor that waits for the step runs on the thread that has
/// computed it (`actor_runner`).
class compute_queue {
 public:
  using task = std::function<void()>;

  /// Steps that took longer are left to the queue's own thread: what a wake-up costs is little to them, and
  /// whoever lends a thread has other things to do, too.
  static constexpr std::chrono::milliseconds longest_borrowed{5};

  /// @param threads  that compute, at least 1
  /// @param plan     of kernels that have been proved (kernels::self_test)
  /// @param cores    thread `i` is pinned to `cores[i]`, and so are, from then on, threads that are borrowed
  ///                 to be thread 0; empty: to none
  /// @errors std::system_error when a thread cannot start or be pinned
  compute_queue(unsigned threads, const kernels::kernel_plan& plan, std::span<const int> cores = {});

  /// With the default plan of a set.
  compute_queue(unsigned threads, kernels::isa set, std::span<const int> cores = {});

  /// Finishes the step under way; later ones are dropped. Must outlive all actors and borrowed threads; never
  /// destroy it on its own thread, where actors may end (`actor_runner`).
  ~compute_queue();
  compute_queue(const compute_queue&) = delete;
  compute_queue& operator=(const compute_queue&) = delete;

  /// @param work  must not throw
  /// @threads any
  void submit(task work);

  /// What the CPU backend computes with, in steps of this queue only.
  kernels::context& context() { return context_; }

  kernels::isa instruction_set() const { return context_.instruction_set(); }

  unsigned threads() const { return pool_.threads(); }

 private:
  void run();
  void stop();
  bool may_borrow() const;
  void compute_borrowed(const task& work);
  void compute(const task& work);

  kernels::thread_pool pool_;
  kernels::context context_;
  std::optional<int> core_; // of whoever is thread 0
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<task> tasks_;
  bool taken_ = false; // a step is computed, or a borrowed thread is about to
  std::chrono::steady_clock::duration last_step_{};
  bool stopping_ = false;
  std::thread thread_; // last: runs with everything above in place
};

} // namespace troupe
