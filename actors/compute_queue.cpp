#include "actors/compute_queue.hpp"

#include <utility>

#include "actors/actor_runner.hpp"

namespace troupe {

compute_queue::compute_queue(unsigned threads, kernels::isa set, std::span<const int> cores)
    : pool_({.threads = threads, .cores = cores}), context_(pool_, set), thread_([this] { run(); }) {
  if (cores.empty()) {
    return;
  }
  try {
    kernels::pin(thread_, cores.front()); // the pool's thread 0
  } catch (...) {
    stop();
    throw;
  }
}

compute_queue::~compute_queue() {
  stop();
}

void compute_queue::stop() {
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
  const kernels::float_mode_guard float_mode;
  const actor_runner runner;
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
