#include "actors/rebalancer/planning_worker.hpp"

#include <exception>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/scheduler/abstract_coordinator.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/error.hpp"

namespace troupe {

namespace {

struct planning_worker_state {
  static inline const char* name = "planning_worker";
};

planning_worker_actor::behavior_type
planning_worker(planning_worker_actor::stateful_pointer<planning_worker_state>,
                const planning_settings& settings, const std::optional<standing_orders_store>& store,
                const std::function<bool()>& is_deposed) {
  return {
      [settings](const planning_task_ptr& task) -> caf::result<planning_answer_ptr> {
        try {
          return std::make_shared<const planning_answer>(carry_out(*task, settings));
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, std::string{"planning failed: "} + failure.what());
        }
      },
      [store, is_deposed](caf::put_atom, const standing_orders_ptr& orders) -> caf::result<void> {
        if (!store)
          return caf::unit;
        try {
          if (is_deposed && is_deposed())
            return make_error(ec::stale_term, "another scheduler has taken over");
          store->save(*orders);
          return caf::unit;
        } catch (const std::exception& failure) {
          return make_error(ec::engine_failed, failure.what());
        }
      },
  };
}

} // namespace

planning_worker_actor spawn_planning_worker(caf::actor_system& system, const planning_settings& settings,
                                            std::optional<standing_orders_store> store,
                                            std::function<bool()> is_deposed) {
  if (system.scheduler().detaches_utility_actors())
    return system.spawn<caf::detached>(planning_worker, settings, std::move(store), std::move(is_deposed));
  return system.spawn(planning_worker, settings, std::move(store), std::move(is_deposed));
}

} // namespace troupe
