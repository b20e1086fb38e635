#include "actors/engine/compute_queue.hpp"

#include <system_error>
#include <utility>

#include <pthread.h>

#include "actors/engine/actor_runner.hpp"
#include "actors/transport/caf/follow_up.hpp"
#include "kernels/cpu/gemm/plan.hpp"

namespace troupe {

compute_queue::compute_queue(unsigned threads, kernels::isa set, std::span<const int> cores)
    : compute_queue(threads, kernels::default_plan(set), cores) {}

compute_queue::compute_queue(unsigned threads, const kernels::kernel_plan& plan, std::span<const int> cores)
    : pool_({.threads = threads, .cores = cores}), context_(pool_, plan), thread_([this] { run(); }) {
  if (cores.empty())
    return;
  try {
    kernels::pin(thread_.native_handle(), cores.front()); // the pool's thread 0
  } catch (...) {
    stop();
    throw;
  }
  core_ = cores.front();
}

compute_queue::~compute_queue() {
  stop();
}

void compute_queue::stop() {
  {
    std::lock_guard guard(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void compute_queue::submit(task work) {
  bool idle = false;
  {
    std::lock_guard guard(mutex_);
    auto* lent = follow_up::of_this_thread();
    if (lent != nullptr && lent->is_free() && may_borrow()) {
      taken_ = true;
      lent->leave([this, work = std::move(work)] { compute_borrowed(work); });
      return;
    }
    tasks_.push_back(std::move(work));
    idle = !taken_; // else the thread that runs a step notifies when it ends
  }
  if (idle)
    changed_.notify_one();
}

bool compute_queue::may_borrow() const {
  return !taken_ && tasks_.empty() && !stopping_ && last_step_ <= longest_borrowed;
}

void compute_queue::compute_borrowed(const task& work) {
  static thread_local const compute_queue* pinned_by = nullptr;
  if (core_ && std::exchange(pinned_by, this) != this) {
    try {
      kernels::pin(::pthread_self(), *core_);
    } catch (const std::system_error&) { // the process has lost this core since
    }
  }
  const kernels::float_mode_guard float_mode;
  const actor_runner runner;
  compute(work);
}

void compute_queue::compute(const task& work) {
  const auto began = std::chrono::steady_clock::now();
  work();
  const auto duration = std::chrono::steady_clock::now() - began;
  std::lock_guard guard(mutex_);
  taken_ = false;
  last_step_ = duration;
  if (stopping_ || !tasks_.empty())
    changed_.notify_one();
}

void compute_queue::run() {
  const kernels::float_mode_guard float_mode;
  const actor_runner runner;
  while (true) {
    task next;
    {
      std::unique_lock guard(mutex_);
      changed_.wait(guard, [this] { return !taken_ && (stopping_ || !tasks_.empty()); });
      if (stopping_)
        return;
      next = std::move(tasks_.front());
      tasks_.pop_front();
      taken_ = true;
    }
    compute(next);
  }
}

} // namespace troupe
