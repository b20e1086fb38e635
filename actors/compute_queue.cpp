#include "actors/compute_queue.hpp"

#include <utility>

namespace troupe {

compute_queue::compute_queue(unsigned threads, kernels::isa set)
    : pool_({.threads = threads, .cores = {}}), context_(pool_, set), thread_([this] { run(); }) {}

compute_queue::~compute_queue() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  arrived_.notify_one();
  thread_.join();
}

void compute_queue::submit(task work) {
  {
    std::lock_guard guard(mutex_);
    tasks_.push_back(std::move(work));
  }
  arrived_.notify_one();
}

void compute_queue::run() {
  kernels::float_mode_guard float_mode;
  while (true) {
    task next;
    {
      std::unique_lock guard(mutex_);
      arrived_.wait(guard, [this] { return stopping_ || !tasks_.empty(); });
      if (stopping_) {
        return;
      }
      next = std::move(tasks_.front());
      tasks_.pop_front();
    }
    next(context_);
  }
}

} // namespace troupe
