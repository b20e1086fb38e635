#include "actors/rebalancer/rebalancer.hpp"

#include <stdexcept>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/protocol/defaults.hpp"
#include "actors/rebalancer/rebalancer_metrics.hpp"
#include "actors/rebalancer/rebalancer_state.hpp"
#include "actors/state/file_format.hpp"

namespace troupe {

namespace {

rebalancer_actor::behavior_type rebalancer(rebalancer_state::pointer self, const fleet_actor& fleet,
                                           const history_actor& history, rebalancer_config config,
                                           const planning_worker_actor& worker, standing_orders orders) {
  self->link_to(worker);
  self->state.start(self, fleet, history, std::move(config), worker, std::move(orders));
  self->set_exit_handler([self](const caf::exit_msg& exit) {
    self->state.shut_down();
    self->quit(exit.reason);
  });
  self->delayed_send(self, defaults::rebalance_look, caf::tick_atom_v);
  return {
      [self](const placement_command& asked) { return self->state.command(asked); },
      [self](status_atom) { return self->state.status(); },
      [self](caf::tick_atom) {
        self->delayed_send(self, defaults::rebalance_look, caf::tick_atom_v);
        self->state.tick();
      },
  };
}

} // namespace

rebalancer_actor spawn_rebalancer(caf::actor_system& system, fleet_actor fleet, history_actor history,
                                  rebalancer_config config) {
  std::optional<standing_orders_store> store;
  standing_orders orders;
  if (!config.state_dir.empty()) {
    store.emplace(config.state_dir);
    try {
      orders = store->load().value_or(standing_orders{});
    } catch (const later_format&) {
      throw;
    } catch (const std::runtime_error& damage) {
      if (config.metrics)
        config.metrics->on_event("orders-damaged", std::string{damage.what()}
                                                       + "; pins, replicas and drained "
                                                         "workers are forgotten");
    }
  }
  auto worker = spawn_planning_worker(system, config.planning, std::move(store), config.is_deposed);
  return system.spawn(rebalancer, std::move(fleet), std::move(history), std::move(config), std::move(worker),
                      std::move(orders));
}

} // namespace troupe
