#include "actors/scheduler/scheduler.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include <caf/actor_system.hpp>

#include "actors/scheduler/scheduler_state.hpp"

namespace troupe {

namespace {

scheduler_actor::behavior_type scheduler(scheduler_state::pointer self, scheduler_config config,
                                         std::optional<stored_cluster> stored,
                                         const cluster_store_writer_actor& writer) {
  if (writer)
    self->link_to(writer);
  self->state.start(self, std::move(config), std::move(stored), writer);
  self->set_down_handler([self](const caf::down_msg& down) { self->state.down(down.source, down.reason); });
  self->set_exit_handler([self](const caf::exit_msg& exit) {
    self->state.shut_down();
    self->quit(exit.reason);
  });
  self->delayed_send(self, defaults::scheduler_tick, caf::tick_atom_v);
  return {
      [self](caf::join_atom, const worker_hello& hello) {
        return self->state.join(hello, self->current_sender());
      },
      [self](const lease_renewal& load) { self->state.renew(load, self->current_sender()); },
      [self](view_atom, worker_id id) { return self->state.view_of(id); },
      [self](caf::leave_atom, worker_id id) { return self->state.leave(id); },
      [self](const admission_request& request) { return self->state.admit(request, self->current_sender()); },
      [self](done_atom, request_id id) { self->state.done(id); },
      [self](caf::tick_atom) {
        self->delayed_send(self, defaults::scheduler_tick, caf::tick_atom_v);
        self->state.tick();
      },
      [self](gather_atom) { self->state.gathered(); },
      [self](status_atom) { return self->state.status(); },
  };
}

} // namespace

scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config) {
  if (config.state_dir.empty())
    return system.spawn(scheduler, std::move(config), std::nullopt, cluster_store_writer_actor{});
  cluster_store store{config.state_dir};
  auto recovered = store.load();
  for (const auto& problem : recovered.problems)
    if (config.metrics)
      config.metrics->on_event("state-damaged", problem);
  config.term = std::max(config.term, recovered.term + 1);
  store.save_term(config.term);
  auto writer = spawn_cluster_store_writer(system, std::move(store));
  return system.spawn(scheduler, std::move(config), std::move(recovered.cluster), std::move(writer));
}

} // namespace troupe
