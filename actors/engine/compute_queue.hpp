// The compute queue of a process: runs steps in order of arrival, one at a time, each on all threads of the
// kernels' pool.
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

/// Attention and expert engines of a process share a queue, so that the process never computes on more
/// threads than it was given. The micro-batches and expert steps that the actors keep in flight bound its
/// length.
///
/// The queue has a thread of its own, and waking it takes up to 50 us. If the queue is idle and recent steps
/// were short, the step runs on the submitting actor's thread, provided that thread has enabled it
/// (`follow_up`). In both cases the actor that waits for the step runs on the thread that computed it
/// (`actor_runner`).
class compute_queue {
 public:
  using task = std::function<void()>;

  /// After a longer step the queue's own thread computes: waking it costs little beside such steps, and a
  /// borrowed thread has other work to do.
  static constexpr std::chrono::milliseconds longest_borrowed{5};

  /// @param threads  number of computing threads, at least 1
  /// @param plan     of kernels that passed kernels::self_test
  /// @param cores    thread `i` is pinned to `cores[i]`; a borrowed thread takes the place of thread 0 and
  /// stays
  ///                 pinned. Empty: no thread is pinned
  /// @throws std::system_error if a thread cannot start or be pinned
  compute_queue(unsigned threads, const kernels::kernel_plan& plan, std::span<const int> cores = {});

  /// Uses the default plan of an instruction set.
  compute_queue(unsigned threads, kernels::isa set, std::span<const int> cores = {});

  /// Finishes the running step and drops later ones. The queue must outlive all actors and borrowed threads;
  /// it must not be destroyed on its own thread, where actors may end (`actor_runner`).
  ~compute_queue();
  compute_queue(const compute_queue&) = delete;
  compute_queue& operator=(const compute_queue&) = delete;

  /// @param work  must not throw
  /// @threads any
  void submit(task work);

  /// Context of the CPU backend; to be used only in steps of this queue.
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
  std::optional<int> core_; // of thread 0, borrowed or not
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<task> tasks_;
  bool taken_ = false; // a step runs, or a borrowed thread is about to run it
  std::chrono::steady_clock::duration last_step_{};
  bool stopping_ = false;
  std::thread thread_; // last: uses all members above
};

} // namespace troupe
