// The actors that frames have woken, to be run by the thread that brought the frames.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include <caf/execution_unit.hpp>
#include <caf/fwd.hpp>
#include <caf/scoped_execution_unit.hpp>

#include "actors/transport/caf/follow_up.hpp"

namespace troupe {

/// Handed to `enqueue` as the execution unit, it keeps the actor that has become ready instead of giving it
/// to the scheduler: that saves the wake-up of another thread on every message.
///
/// Used by one thread at a time; what `next` returns may run on another.
class woken_actors : public caf::execution_unit {
 public:
  explicit woken_actors(caf::actor_system& sys) : caf::execution_unit(&sys), context_(&sys) {}

  ~woken_actors() override;

  /// Called by CAF: `job` is ready.
  void exec_later(caf::resumable* job) override { ready_.push_back(job); }

  /// Takes out the oldest; empty when there is none. The call runs the actor over a bounded number of
  /// messages, and what is left after those, or becomes ready meanwhile, goes to the scheduler. It returns
  /// what the actor has left to the thread, if anything.
  std::function<follow_up::work()> next();

  /// Gives all of them to the scheduler.
  void hand_over();

 private:
  // What actors have for context while they run: whatever they wake goes to the scheduler.
  caf::scoped_execution_unit context_;
  std::vector<caf::resumable*> ready_;
  std::size_t first_ = 0;
};

} // namespace troupe
