#include "actors/cluster/member.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <caf/actor_cast.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/cluster/member_pulse.hpp"
#include "actors/cluster/reconnect_pauses.hpp"
#include "actors/cluster/trace_control.hpp"
#include "actors/cluster/view_change.hpp"
#include "actors/defaults.hpp"
#include "actors/gateway/gateway.hpp"
#include "actors/scheduler/scheduler.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

/// What every worker actor understands of its member.
using worker_actor =
    caf::typed_actor<caf::reacts_to<cluster_view>, caf::replies_to<caf::join_atom>::with<worker_hello>,
                     caf::replies_to<load_atom>::with<lease_renewal>>;

using host_actor = caf::typed_actor<caf::replies_to<host_order>::with<host_report>>;

using scheduler_listener_actor = caf::typed_actor<caf::reacts_to<scheduler_atom, caf::strong_actor_ptr>>;

struct member_state {
  using interface = member_actor::extend_with<trace_control_actor>;
  using pointer = interface::stateful_pointer<member_state>;

  enum class phase { looking, asking, joined, leaving, left };

  static inline const char* name = "member";

  member_config config;
  worker_actor worker;
  scheduler_actor scheduler; ///< from the moment it is found; under monitor
  worker_id id;              ///< the worker's, once it has said hello
  std::string worker_name;   ///< likewise
  phase now = phase::looking;
  uint64_t attempt = 0; ///< names the present chain of questions; answers to older ones are void
  reconnect_pauses pauses{0};
  size_t endpoint = 0;              ///< the scheduler to ask, or that answered last
  size_t num_asked = 0;             ///< without success since the last pause
  caf::actor_clock::time_point due; ///< of the next tick that counts
  bool has_due = false;
  uint64_t term = 0;          ///< newest term seen
  held_view held;             ///< what was last passed on
  uint64_t view_asked_in = 0; ///< the attempt in which the whole view was asked for; 0: no question is open
};

using pointer = member_state::pointer;

/// The next tick that counts is after `delay`; earlier plans are void.
void schedule_tick(pointer self, std::chrono::milliseconds delay) {
  self->state.due = self->clock().now() + delay;
  self->state.has_due = true;
  self->delayed_send(self, delay, caf::tick_atom_v);
}

void tell_scheduler(pointer self, const caf::strong_actor_ptr& scheduler) {
  if (self->state.config.role == worker_role::gateway)
    self->send(caf::actor_cast<scheduler_listener_actor>(self->state.config.worker), scheduler_atom_v,
               scheduler);
}

/// The process' probes hear of it.
void set_apart(pointer self, const char* why) {
  if (self->state.config.pulse)
    self->state.config.pulse->apart(why);
}

/// Gives up the present scheduler, if any, and looks for one after `delay`.
void look_again(pointer self, std::chrono::milliseconds delay) {
  auto& state = self->state;
  if (state.now == member_state::phase::left)
    return;
  ++state.attempt;
  state.now = member_state::phase::looking;
  set_apart(self, "looks for a scheduler");
  if (state.scheduler) {
    self->demonitor(state.scheduler.address());
    state.scheduler = nullptr;
    tell_scheduler(self, nullptr);
  }
  schedule_tick(self, delay);
}

/// Asks the next scheduler, after a pause when all have been asked.
void try_next(pointer self) {
  auto& state = self->state;
  const auto count = std::max<size_t>(state.config.scheduler_endpoints.size(), 1);
  state.endpoint = (state.endpoint + 1) % count;
  const auto has_asked_all = ++state.num_asked >= count;
  if (has_asked_all)
    state.num_asked = 0;
  look_again(self, has_asked_all ? state.pauses.next() : std::chrono::milliseconds{0});
}

/// The connection is gone, or the scheduler has ended: its standby is more likely to answer than it is.
void lost(pointer self) {
  auto& state = self->state;
  state.endpoint = (state.endpoint + 1) % std::max<size_t>(state.config.scheduler_endpoints.size(), 1);
  state.num_asked = 0;
  look_again(self, state.pauses.next());
}

/// Takes a change into the view that it has, and passes that on.
void pass_on(pointer self, const view_change& change) {
  auto& state = self->state;
  if (state.held.take(change, state.term) != held_view::outcome::taken)
    return;
  state.term = change.term;
  self->send(state.worker, state.held.view());
}

/// Asks for the whole view where a change has been missed; again with each renewal until it is there.
void catch_up(pointer self) {
  auto& state = self->state;
  const auto is_here = state.now == member_state::phase::joined || state.now == member_state::phase::leaving;
  if (!is_here || !state.held.is_behind() || state.view_asked_in == state.attempt)
    return;
  const auto attempt = state.view_asked_in = state.attempt;
  const auto is_current = [self, attempt] { return self->state.view_asked_in == attempt; };
  self->request(state.scheduler, defaults::connect_timeout, view_atom_v, state.id)
      .then(
          [self, is_current](const shared_view_change& whole) {
            if (!is_current())
              return;
            self->state.view_asked_in = 0;
            pass_on(self, *whole);
          },
          [self, is_current](const caf::error&) {
            if (is_current())
              self->state.view_asked_in = 0;
          });
}

/// Asks the worker for its load and renews the lease with it.
void renew(pointer self) {
  auto attempt = self->state.attempt;
  auto term = self->state.held.view().experts.term;
  auto epoch = self->state.held.view().experts.epoch;
  schedule_tick(self, defaults::lease_interval);
  catch_up(self);
  self->request(self->state.worker, defaults::local_request, load_atom_v)
      .then(
          [self, attempt, term, epoch](lease_renewal& load) {
            if (attempt != self->state.attempt)
              return;
            if (self->state.config.pulse)
              self->state.config.pulse->heard(self->clock().now(), load.engine);
            load.id = self->state.id;
            load.term = term; // the worker had this view in hand before it answered
            load.epoch = epoch;
            self->send(self->state.scheduler, std::move(load));
          },
          [](const caf::error&) {
            // A worker that cannot say its load in time must not keep its lease.
          });
}

void welcomed(pointer self, const worker_welcome& welcome) {
  auto& state = self->state;
  if (welcome.term < state.term) { // it was overtaken while this answer was on its way
    try_next(self);
    return;
  }
  state.term = welcome.term;
  state.pauses.reset();
  state.num_asked = 0;
  state.now = member_state::phase::joined;
  if (state.config.pulse)
    state.config.pulse->joined();
  pass_on(self, *welcome.view);
  tell_scheduler(self, caf::actor_cast<caf::strong_actor_ptr>(state.scheduler));
  renew(self);
}

void refused(pointer self, const caf::error& error) {
  if (code_of(error) == ec::incompatible)
    self->quit(error);
  else
    try_next(self);
}

/// scheduler → hello → welcome, each with its deadline.
void find_scheduler(pointer self) {
  auto& state = self->state;
  state.now = member_state::phase::asking;
  auto attempt = ++state.attempt;
  auto is_current = [self, attempt] { return self->state.attempt == attempt; };
  auto failed = [self, is_current](const caf::error& error) {
    if (is_current())
      refused(self, error);
  };
  auto greet = [self, is_current, failed](worker_hello& hello) {
    if (!is_current())
      return;
    self->state.id = hello.address.id;
    self->state.worker_name = hello.address.name;
    hello.term = self->state.term;
    self->request(self->state.scheduler, defaults::connect_timeout, caf::join_atom_v, std::move(hello))
        .then(
            [self, is_current](const worker_welcome& welcome) {
              if (is_current())
                welcomed(self, welcome);
            },
            failed);
  };
  auto found = [self, is_current, failed, greet](const caf::strong_actor_ptr& handle) {
    if (!is_current())
      return;
    self->state.scheduler = caf::actor_cast<scheduler_actor>(handle);
    if (!self->state.scheduler) {
      try_next(self);
      return;
    }
    self->monitor(self->state.scheduler);
    self->request(self->state.worker, defaults::local_request, caf::join_atom_v).then(greet, failed);
  };
  const auto& endpoints = state.config.scheduler_endpoints;
  // One that hangs must not keep us from its standby; meanwhile the transport goes on dialling it.
  const auto patience = endpoints.size() > 1 ? std::chrono::milliseconds{defaults::scheduler_probe}
                                             : std::chrono::milliseconds{defaults::connect_timeout};
  self->request(state.config.directory, patience, caf::resolve_atom_v,
                endpoints.empty() ? std::string{} : endpoints[state.endpoint], std::string{"scheduler"})
      .then(found, failed);
}

void on_tick(pointer self) {
  auto& state = self->state;
  if (!state.has_due || self->clock().now() < state.due)
    return;
  state.has_due = false;
  if (state.now == member_state::phase::looking)
    find_scheduler(self);
  else if (state.now == member_state::phase::joined || state.now == member_state::phase::leaving)
    renew(self);
}

caf::result<void> on_leave(pointer self) {
  auto& state = self->state;
  auto promise = self->make_response_promise<caf::unit_t>();
  set_apart(self, "leaves the cluster");
  if (state.now != member_state::phase::joined) {
    state.now = member_state::phase::left;
    ++state.attempt;
    promise.deliver(caf::unit);
    return promise;
  }
  state.now = member_state::phase::leaving;
  auto finish = [self, promise]() mutable {
    self->state.now = member_state::phase::left;
    ++self->state.attempt;
    promise.deliver(caf::unit);
  };
  // The scheduler answers by its own deadline, defaults::drain.
  self->request(state.scheduler, defaults::drain + defaults::local_request, caf::leave_atom_v, state.id)
      .then(finish, [finish](const caf::error&) mutable { finish(); });
  return promise;
}

caf::result<host_report> on_order(pointer self, const host_order& order) {
  auto& state = self->state;
  if (state.config.role != worker_role::expert)
    return make_error(ec::bad_request, "only expert workers host experts");
  if (order.term < state.term)
    return make_error(ec::stale_term, "a scheduler of term " + std::to_string(order.term)
                                          + " gives orders in term " + std::to_string(state.term));
  state.term = order.term; // an expert host is sent no views
  auto promise = self->make_response_promise<host_report>();
  self->request(caf::actor_cast<host_actor>(state.config.worker), defaults::host_order_timeout, order)
      .then([promise](host_report& report) mutable { promise.deliver(std::move(report)); },
            [promise](caf::error& error) mutable { promise.deliver(std::move(error)); });
  return promise;
}

member_state::interface::behavior_type member(pointer self, member_config config) {
  self->state.worker = caf::actor_cast<worker_actor>(config.worker);
  self->state.config = std::move(config);
  self->state.pauses = reconnect_pauses{self->state.config.seed};
  self->monitor(self->state.worker);
  self->set_down_handler([self](const caf::down_msg& down) {
    if (down.source == self->state.worker.address())
      self->quit(down.reason);
    else if (self->state.scheduler && down.source == self->state.scheduler.address()
             && self->state.now != member_state::phase::leaving)
      lost(self);
  });
  schedule_tick(self, std::chrono::milliseconds{0});
  return {
      [self](const shared_view_change& change) {
        const auto before = self->state.held.view().experts.epoch;
        pass_on(self, *change);
        catch_up(self);
        // An old host may let go of an expert once every attention worker is known not to send to it any
        // more: the next move need not wait for the next renewal.
        const auto& st = self->state;
        if (st.config.role == worker_role::attention && !change->layers.empty()
            && st.now == member_state::phase::joined && st.held.view().experts.epoch != before)
          renew(self);
      },
      [self](const host_order& order) { return on_order(self, order); },
      [self](fence_atom) {
        if (self->state.now == member_state::phase::joined)
          look_again(self, std::chrono::milliseconds{0});
      },
      [self](caf::tick_atom) { on_tick(self); },
      [self](caf::leave_atom) { return on_leave(self); },
      [self](const trace_command& command) {
        constexpr double million = 1e6;
        return trace_receipt{{{self->state.worker_name, timeline::start(command.share_ppm / million)}}};
      },
  };
}

} // namespace

member_actor spawn_member(caf::actor_system& system, member_config config) {
  return system.spawn(member, std::move(config));
}

} // namespace troupe
