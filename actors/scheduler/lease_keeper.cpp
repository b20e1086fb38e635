#include "actors/scheduler/lease_keeper.hpp"

#include <exception>
#include <string>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

struct lease_keeper_state {
  static inline const char* name = "lease_keeper";
  std::unique_ptr<scheduler_lease>
      lease; ///< released when the actor ends, even if others still have its handle
};

caf::error overtaken(const lease_holder& by) {
  return make_error(ec::stale_term, described(by) + " has taken over in term " + std::to_string(by.term));
}

lease_keeper_actor::behavior_type
lease_keeper(lease_keeper_actor::stateful_pointer<lease_keeper_state> self,
             const std::shared_ptr<std::unique_ptr<scheduler_lease>>& lease) {
  self->state.lease = std::move(*lease);
  return {
      [self](caf::tick_atom) -> caf::result<void> {
        try {
          if (const auto other = self->state.lease->renew())
            return overtaken(*other);
          return caf::unit;
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, failure.what());
        }
      },
      [self](caf::update_atom, std::uint64_t above) -> caf::result<std::uint64_t> {
        try {
          if (const auto other = self->state.lease->raise(above))
            return overtaken(*other);
          return self->state.lease->term();
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, failure.what());
        }
      },
  };
}

} // namespace

lease_keeper_actor spawn_lease_keeper(caf::actor_system& system, std::unique_ptr<scheduler_lease> lease) {
  const auto held =
      std::make_shared<std::unique_ptr<scheduler_lease>>(std::move(lease)); // arguments are copied
  if (system.scheduler().detaches_utility_actors())
    return system.spawn<caf::detached>(lease_keeper, held);
  return system.spawn(lease_keeper, held);
}

} // namespace troupe
