#include "actors/history/history_writer.hpp"

#include <exception>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

struct history_writer_state {
  static inline const char* name = "history_writer";
};

/// Changes the file unless a successor owns it, and answers with the result.
template <class Change>
caf::result<void> change_file(const std::function<bool()>& is_deposed, const Change& change) {
  try {
    if (is_deposed && is_deposed())
      return make_error(ec::stale_term, "another scheduler has taken over");
    change();
    return caf::unit;
  } catch (const std::exception& failure) {
    return make_error(ec::engine_failed, failure.what());
  }
}

history_writer_actor::behavior_type
history_writer(history_writer_actor::stateful_pointer<history_writer_state>, const history_store& store,
               const std::function<bool()>& is_deposed) {
  return {
      [store, is_deposed](caf::put_atom, const stored_history_ptr& history) {
        return change_file(is_deposed, [&] { store.save(*history); });
      },
      [store, is_deposed](caf::delete_atom) { return change_file(is_deposed, [&] { store.set_aside(); }); },
  };
}

} // namespace

history_writer_actor spawn_history_writer(caf::actor_system& system, history_store store,
                                          std::function<bool()> is_deposed) {
  if (system.scheduler().detaches_utility_actors())
    return system.spawn<caf::detached>(history_writer, std::move(store), std::move(is_deposed));
  return system.spawn(history_writer, std::move(store), std::move(is_deposed));
}

} // namespace troupe
