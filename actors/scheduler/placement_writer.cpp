#include "actors/scheduler/placement_writer.hpp"

#include <exception>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/error.hpp"

namespace troupe {

namespace {

struct placement_writer_state {
  static inline const char* name = "placement_writer";
  uint64_t term = 0; ///< the last one that was saved
};

placement_writer_actor::behavior_type
placement_writer(placement_writer_actor::stateful_pointer<placement_writer_state> self,
                 const placement_store& store) {
  return {
      [self, store](caf::put_atom, const stored_cluster_ptr& cluster) -> caf::result<void> {
        try {
          if (cluster->experts.term != self->state.term)
            store.save_term(cluster->experts.term);
          self->state.term = cluster->experts.term;
          store.save(*cluster);
          return caf::unit;
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, failure.what());
        }
      },
  };
}

} // namespace

placement_writer_actor spawn_placement_writer(caf::actor_system& system, placement_store store) {
  if (system.scheduler().detaches_utility_actors())
    return system.spawn<caf::detached>(placement_writer, std::move(store));
  return system.spawn(placement_writer, std::move(store));
}

} // namespace troupe
