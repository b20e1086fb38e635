// The compute thread of a process: steps in the order they came, each on all threads of the kernels' pool.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "kernels/context.hpp"
#include "kernels/isa.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe {

/// Attention and expert engines of one process share a queue, so that the process never computes on more
/// threads than it was given. Its length is bounded by what the actors keep in flight: micro-batches and
/// expert steps.
class compute_queue {
 public:
  using task = std::function<void(kernels::context&)>;

  /// @param threads  that compute, at least 1
  /// @param set      from kernels::select_isa, which has proved it
  compute_queue(unsigned threads, kernels::isa set);

  /// Finishes the task under way; later ones are dropped.
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

  kernels::thread_pool pool_;
  kernels::context context_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<task> tasks_;
  bool stopping_ = false;
  std::thread thread_; // last: runs with everything above in place
};

} // namespace troupe
