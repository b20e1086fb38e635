#include "actors/transport/caf/resume_actor.hpp"

#include <caf/actor_system.hpp>
#include <caf/execution_unit.hpp>
#include <caf/resumable.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>

namespace troupe {

void resume_actor(caf::resumable* job, caf::execution_unit& context, std::size_t max_messages) {
  switch (job->resume(&context, max_messages)) {
  case caf::resumable::resume_later:
    context.system().scheduler().enqueue(job);
    break;
  case caf::resumable::awaiting_message:
  case caf::resumable::done:
  case caf::resumable::shutdown_execution_unit:
    caf::intrusive_ptr_release(job);
    break;
  }
}

} // namespace troupe
