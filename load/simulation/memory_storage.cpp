#include "load/simulation/memory_storage.hpp"

#include <algorithm>

#include <caf/typed_event_based_actor.hpp>

namespace troupe::simulation {

namespace {

using disk_ptr = std::shared_ptr<scheduler_disk>;

cluster_store_writer_actor::behavior_type memory_writer(const disk_ptr& disk) {
  return {[disk](caf::put_atom, const stored_cluster_ptr& cluster) -> caf::result<void> {
    disk->stored = *cluster;
    return caf::unit;
  }};
}

lease_keeper_actor::behavior_type memory_keeper(const disk_ptr& disk) {
  return {[](caf::tick_atom) -> caf::result<void> { return caf::unit; },
          [disk](caf::update_atom, uint64_t above) -> caf::result<uint64_t> {
            return disk->term = std::max(disk->term, above) + 1;
          }};
}

} // namespace

scheduler_storage spawn_memory_storage(caf::actor_system& system, const disk_ptr& disk) {
  ++disk->term;
  return {disk->stored, system.spawn(memory_writer, disk), system.spawn(memory_keeper, disk)};
}

} // namespace troupe::simulation
