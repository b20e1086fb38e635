#include "actors/history/history_writer.hpp"

#include <exception>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/error.hpp"

namespace troupe {

namespace {

struct history_writer_state {
  static inline const char* name = "history_writer";
};

history_writer_actor::behavior_type
history_writer(history_writer_actor::stateful_pointer<history_writer_state>, const history_store& store) {
  return {
      [store](caf::put_atom, const stored_history_ptr& history) -> caf::result<void> {
        try {
          store.save(*history);
          return caf::unit;
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, failure.what());
        }
      },
      [store](caf::delete_atom) -> caf::result<void> {
        try {
          store.set_aside();
          return caf::unit;
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, failure.what());
        }
      },
  };
}

} // namespace

history_writer_actor spawn_history_writer(caf::actor_system& system, history_store store) {
  if (system.scheduler().detaches_utility_actors())
    return system.spawn<caf::detached>(history_writer, std::move(store));
  return system.spawn(history_writer, std::move(store));
}

} // namespace troupe
