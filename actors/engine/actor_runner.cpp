#include "actors/engine/actor_runner.hpp"

#include <algorithm>
#include <cstddef>

#include <caf/actor_system.hpp>
#include <caf/message_id.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include "actors/transport/caf/resume_actor.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe {

namespace {

// The result and messages that came meanwhile. Later messages wait, since the thread has to compute.
constexpr std::size_t max_messages = 16;

// The workers of a process; tests have a few more actors.
constexpr std::size_t max_own = 8;

thread_local actor_runner* current = nullptr;

} // namespace

actor_runner::actor_runner() {
  current = this;
}

actor_runner::~actor_runner() {
  current = nullptr;
}

actor_runner* actor_runner::of_this_thread() {
  return current;
}

void actor_runner::deliver(const caf::strong_actor_ptr& to, caf::message content) {
  system_ = to->home_system;
  delivering_ = true;
  to->enqueue(nullptr, caf::make_message_id(), std::move(content), this);
  delivering_ = false;
  if (running_)
    return;
  running_ = true;
  while (!ready_.empty()) {
    auto* job = ready_.front();
    ready_.erase(ready_.begin());
    run(job);
  }
  running_ = false;
}

void actor_runner::exec_later(caf::resumable* job) {
  const bool known = std::find(own_.begin(), own_.end(), job) != own_.end();
  if (!known && !delivering_) {
    system().scheduler().enqueue(job);
    return;
  }
  if (!known) {
    if (own_.size() == max_own)
      own_.erase(own_.begin());
    own_.push_back(job);
  }
  ready_.push_back(job);
}

void actor_runner::run(caf::resumable* job) {
  const kernels::float_mode_guard mode(kernels::float_mode::standard);
  // The actor may end, and its system with it: a system waits for its detached threads.
  auto& sys = system();
  sys.inc_detached_threads();
  resume_actor(job, *this, max_messages);
  sys.dec_detached_threads();
}

} // namespace troupe
