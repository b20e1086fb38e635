#include "actors/scheduler/scheduler.hpp"

#include <functional>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/scheduler/scheduler_state.hpp"
#include "actors/scheduler/scheduler_storage.hpp"
#include "actors/scheduler/succession.hpp"

namespace troupe {

namespace {

/// Delivers what comes later.
template <class T>
std::function<void(const caf::expected<T>&)> answer_of(caf::typed_response_promise<T> promise) {
  return [promise = std::move(promise)](const caf::expected<T>& answer) mutable {
    if (answer)
      promise.deliver(*answer);
    else
      promise.deliver(answer.error());
  };
}

std::function<void(const caf::error&)> end_of(caf::typed_response_promise<caf::unit_t> promise) {
  return [promise = std::move(promise)](const caf::error& error) mutable {
    if (error)
      promise.deliver(error);
    else
      promise.deliver(caf::unit);
  };
}

scheduler_interface::behavior_type scheduler(scheduler_state::pointer self, scheduler_config config,
                                             scheduler_storage storage) {
  if (storage.writer)
    self->link_to(storage.writer);
  if (storage.keeper)
    self->link_to(storage.keeper);
  self->state.start(self, std::move(config), std::move(storage));
  self->set_down_handler([self](const caf::down_msg& down) { self->state.down(down.source, down.reason); });
  self->set_exit_handler([self](const caf::exit_msg& exit) {
    self->state.shut_down();
    self->quit(exit.reason);
  });
  self->delayed_send(self, defaults::scheduler_tick, caf::tick_atom_v);
  return {
      [self](caf::join_atom, const worker_hello& hello) -> caf::result<worker_welcome> {
        return self->state.join(hello, self->current_sender());
      },
      [self](const lease_renewal& load) { self->state.renew(load, self->current_sender()); },
      [self](view_atom, worker_id id) -> caf::result<shared_view_change> { return self->state.view_of(id); },
      [self](caf::leave_atom, worker_id id) -> caf::result<void> {
        auto promise = self->make_response_promise<caf::unit_t>();
        self->state.leave(id, end_of(promise));
        return promise;
      },
      [self](const admission_request& request) -> caf::result<assignment> {
        const auto owner = self->current_sender(); // a promise takes it away from the message
        auto promise = self->make_response_promise<assignment>();
        self->state.admit(request, owner, answer_of(promise));
        return promise;
      },
      [self](done_atom, request_id id) { self->state.done(id); },
      [self](done_atom, request_id id, std::uint32_t num_tokens) { self->state.done(id, num_tokens); },
      [self](caf::tick_atom) {
        self->delayed_send(self, defaults::scheduler_tick, caf::tick_atom_v);
        self->state.tick();
      },
      [self](gather_atom) { self->state.gathered(); },
      [self](status_atom) { return self->state.status(); },
      [self](fleet_atom) { return self->state.describe_fleet(); },
      [self](const expert_move_ptr& move) -> caf::result<void> {
        auto promise = self->make_response_promise<caf::unit_t>();
        self->state.move_expert(*move, end_of(promise));
        return promise;
      },
      [self](const drained_ptr& names) { self->state.set_drained(*names); },
      [self](const expert_activity_ptr& activity) { self->state.set_activity(activity); },
      [self](const trace_command& command) -> caf::result<trace_receipt> {
        auto promise = self->make_response_promise<trace_receipt>();
        self->state.trace(command, answer_of(promise));
        return promise;
      },
  };
}

} // namespace

fleet_actor fleet_of(const scheduler_actor& scheduler) {
  return caf::actor_cast<fleet_actor>(scheduler);
}

scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config) {
  if (config.state_dir.empty())
    return spawn_scheduler(system, std::move(config), scheduler_storage{});
  auto from = succeed({.state_dir = config.state_dir, .name = config.name});
  return spawn_scheduler(system, std::move(config), std::move(*from));
}

scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config, succession from) {
  for (const auto& problem : from.problems)
    if (config.metrics)
      config.metrics->on_event("state-damaged", problem);
  config.term = from.lease->term();
  scheduler_storage storage;
  storage.stored = std::move(from.cluster);
  storage.writer = spawn_cluster_store_writer(system, cluster_store{config.state_dir});
  storage.keeper = spawn_lease_keeper(system, std::move(from.lease));
  return spawn_scheduler(system, std::move(config), std::move(storage));
}

scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config,
                                scheduler_storage storage) {
  return system.spawn(scheduler, std::move(config), std::move(storage));
}

} // namespace troupe
