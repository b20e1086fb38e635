// An actor that a part of the scheduler can speak through, without the scheduler.
#pragma once

#include <functional>
#include <memory>
#include <utility>

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/scheduler/scheduler.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

namespace troupe {

using stand_in_task = std::function<void(scheduler_interface::pointer)>;

/// Understands all messages to a scheduler and heeds none, but runs the task when it is sent a gather_atom.
inline scheduler_interface::behavior_type scheduler_stand_in(scheduler_interface::pointer self,
                                                             const std::shared_ptr<stand_in_task>& task) {
  return {
      [](caf::join_atom, const worker_hello&) { return worker_welcome{}; },
      [](const lease_renewal&) {},
      [](view_atom, worker_id) { return shared_view_change{}; },
      [](caf::leave_atom, worker_id) {},
      [](const admission_request&) { return assignment{}; },
      [](done_atom, request_id) {},
      [](done_atom, request_id, std::uint32_t) {},
      [](caf::tick_atom) {},
      [self, task](gather_atom) { std::exchange(*task, nullptr)(self); },
      [](status_atom) { return scheduler_status{}; },
      [](fleet_atom) { return fleet_ptr{}; },
      [](const expert_move_ptr&) {},
      [](const drained_ptr&) {},
      [](const expert_activity_ptr&) {},
      [](const trace_command&) { return trace_receipt{}; },
  };
}

/// Base of tests of such parts.
class stand_in_system : public deterministic_system {
 protected:
  void SetUp() override {
    deterministic_system::SetUp();
    stand_in_ = root(system.spawn(scheduler_stand_in, task_));
  }

  /// Runs this in the actor, and then what follows from it.
  void act(stand_in_task task) {
    *task_ = std::move(task);
    caf::anon_send(stand_in_, gather_atom_v);
    run();
  }

  void act(const std::function<void()>& task) {
    act([task](scheduler_interface::pointer) { task(); });
  }

 private:
  std::shared_ptr<stand_in_task> task_ = std::make_shared<stand_in_task>();
  scheduler_interface stand_in_;
};

} // namespace troupe
