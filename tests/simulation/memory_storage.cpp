#include "tests/simulation/memory_storage.hpp"

#include <algorithm>

#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"

namespace troupe::simulation {

namespace {

using disk_ptr = std::shared_ptr<scheduler_disk>;

cluster_store_writer_actor::behavior_type memory_writer(const disk_ptr& disk) {
  return {[disk](caf::put_atom, const stored_cluster_ptr& cluster) -> caf::result<void> {
    if (disk->term > cluster->experts.term)
      return make_error(ec::stale_term, "a newer term has been taken");
    disk->stored = *cluster;
    return caf::unit;
  }};
}

lease_keeper_actor::behavior_type memory_keeper(const disk_ptr& disk, const agenda* time) {
  const auto term = std::make_shared<std::uint64_t>(disk->term);
  const auto is_overtaken = [disk, term] { return disk->term > *term; };
  const auto overtaken = [disk] {
    return make_error(ec::stale_term, "another one has taken over in term " + std::to_string(disk->term));
  };
  return {[=](caf::tick_atom) -> caf::result<void> {
            if (is_overtaken())
              return overtaken();
            disk->touched = time->now();
            return caf::unit;
          },
          [=](caf::update_atom, std::uint64_t above) -> caf::result<std::uint64_t> {
            if (is_overtaken())
              return overtaken();
            *term = disk->term = std::max(disk->term, above) + 1;
            disk->touched = time->now();
            return *term;
          }};
}

} // namespace

scheduler_storage spawn_memory_storage(caf::actor_system& system, const disk_ptr& disk, const agenda& time) {
  ++disk->term;
  disk->touched = time.now();
  return {disk->stored, system.spawn(memory_writer, disk), system.spawn(memory_keeper, disk, &time)};
}

} // namespace troupe::simulation
