#include "actors/transport/caf/woken_actors.hpp"

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

#include "actors/transport/caf/resume_actor.hpp"

namespace troupe {

namespace {

// More than a peer has in flight to one actor, usually.
constexpr std::size_t max_messages = 64;

} // namespace

woken_actors::~woken_actors() {
  hand_over();
}

std::function<follow_up::work()> woken_actors::next() {
  if (first_ == ready_.size()) {
    ready_.clear();
    first_ = 0;
    return {};
  }
  return [this, job = ready_[first_++]] {
    follow_up left;
    resume_actor(job, context_, max_messages);
    return left.take();
  };
}

void woken_actors::hand_over() {
  for (; first_ < ready_.size(); ++first_)
    system().scheduler().enqueue(ready_[first_]);
  ready_.clear();
  first_ = 0;
}

} // namespace troupe
