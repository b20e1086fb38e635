// The compute thread of a process: steps in the order they came, each on all threads of the kernels' pool.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

#include "kernels/context.hpp"
#include "kernels/isa.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe {

/// Attention and expert engines of one process share a queue, so that the process never computes on more
/// threads than it was given. Its length is bounded by what the actors keep in flight: micro-batches and
/// expert steps. The actor that waits for a step runs on the queue's thread (`actor_runner`).
class compute_queue {
 public:
  using task = std::function<void(kernels::context&)>;

  /// @param threads  that compute, at least 1
  /// @param set      from kernels::select_isa, which has proved it
  /// @param cores    thread `i` is pinned to `cores[i]`; empty: to none
  /// @errors std::system_error when a thread cannot start or be pinned
  compute_queue(unsigned threads, kernels::isa set, std::span<const int> cores = {});

  /// Finishes the task under way; later ones are dropped. Not on its own thread, where actors may end
  /// (`actor_runner`): whoever made it keeps it longer than the actors live.
  ~compute_queue();
  compute_queue(const compute_queue&) = delete;
  compute_queue& operator=(const compute_queue&) = delete;

  /// @param work  must not throw
  /// @threads any
  void submit(task work);

  kernels::isa instruction_set() const { return context_.instruction_set(); }

  unsigned threads() const { return pool_.threads(); }

 private:
  void run();
  void stop();

  kernels::thread_pool pool_;
  kernels::context context_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<task> tasks_;
  bool stopping_ = false;
  std::thread thread_; // last: runs with everything above in place
};

} // namespace troupe
