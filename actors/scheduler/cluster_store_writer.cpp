#include "actors/scheduler/cluster_store_writer.hpp"

#include <exception>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"
#include "actors/scheduler/scheduler_lease.hpp"

namespace troupe {

namespace {

struct cluster_store_writer_state {
  static inline const char* name = "cluster_store_writer";
};

cluster_store_writer_actor::behavior_type
cluster_store_writer(cluster_store_writer_actor::stateful_pointer<cluster_store_writer_state>,
                     const cluster_store& store) {
  return {
      [store](caf::put_atom, const stored_cluster_ptr& cluster) -> caf::result<void> {
        try {
          // A scheduler that wakes up must not overwrite what its successor has saved meanwhile.
          if (newest_leased_term(store.directory()) > cluster->experts.term)
            return make_error(ec::stale_term, "a newer term has been taken");
          store.save(*cluster);
          return caf::unit;
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, failure.what());
        }
      },
  };
}

} // namespace

cluster_store_writer_actor spawn_cluster_store_writer(caf::actor_system& system, cluster_store store) {
  if (system.scheduler().detaches_utility_actors())
    return system.spawn<caf::detached>(cluster_store_writer, std::move(store));
  return system.spawn(cluster_store_writer, std::move(store));
}

} // namespace troupe
