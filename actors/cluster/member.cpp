#include "actors/cluster/member.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include <caf/actor_cast.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/cluster/member_pulse.hpp"
#include "actors/cluster/reconnect_pauses.hpp"
#include "actors/cluster/view_change.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/scheduler_actor.hpp"
#include "actors/protocol/trace_control_actor.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

/// The messages that every worker actor handles for its member.
using worker_actor =
    caf::typed_actor<caf::reacts_to<cluster_view>, caf::replies_to<caf::join_atom>::with<worker_hello>,
                     caf::replies_to<load_atom>::with<lease_renewal>>;

using host_actor = caf::typed_actor<caf::replies_to<host_order>::with<host_report>>;

using scheduler_listener_actor = caf::typed_actor<caf::reacts_to<scheduler_atom, caf::strong_actor_ptr>>;

struct member_state {
  using interface = member_actor::extend_with<trace_control_actor>;
  using pointer = interface::stateful_pointer<member_state>;

  enum class phase { looking, asking, joined, left };

  /// State of a worker that is about to leave.
  struct departure {
    caf::typed_response_promise<caf::unit_t> promise;
    // Used while no scheduler is present.
    std::optional<caf::actor_clock::time_point> gives_up;
    caf::actor_clock::time_point used; ///< last time that an expert worker computed something
    std::uint64_t runs = 0;            ///< computed until then
  };

  static inline const char* name = "member";

  member_config config;
  worker_actor worker;
  scheduler_actor scheduler; ///< set once it is found; monitored
  worker_id id;              ///< of the worker, after its hello
  std::string worker_name;   ///< of the worker, after its hello
  phase now = phase::looking;
  std::uint64_t attempt = 0; ///< number of the current chain of requests; answers to older chains are ignored
  reconnect_pauses pauses{0};
  std::size_t endpoint = 0;         ///< of the scheduler to ask next, or that answered last
  std::size_t num_asked = 0;        ///< unsuccessful requests since the last pause
  caf::actor_clock::time_point due; ///< time of the next tick that counts
  bool has_due = false;
  std::uint64_t term = 0;          ///< newest term seen
  held_view held;                  ///< the view that was passed on last
  std::uint64_t view_asked_in = 0; ///< attempt in which the whole view was requested; 0: no request is open
  bool hosts_experts = false;      ///< by the worker's last report
  std::optional<departure> leaving;
};

using pointer = member_state::pointer;

/// The next tick that counts comes after `delay`; earlier ones are void.
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

/// Reports the separation to the probes of the process.
void set_apart(pointer self, const char* why) {
  if (self->state.config.pulse)
    self->state.config.pulse->apart(why);
}

void finish_leaving(pointer self) {
  auto& state = self->state;
  if (state.now == member_state::phase::left)
    return;
  state.now = member_state::phase::left;
  ++state.attempt;
  state.leaving->promise.deliver(caf::unit);
}

/// A worker that leaves without a scheduler ends when no other depends on it, or after a while. Its
/// dependants still find it by the last view, and the next scheduler will want its experts.
void leave_alone(pointer self) {
  auto& state = self->state;
  auto& leaving = *state.leaving;
  const auto now = self->clock().now();
  if (!leaving.gives_up) {
    leaving.gives_up = now + defaults::leave_alone;
    leaving.used = now;
  }
  const auto is_expert = state.config.role == worker_role::expert;
  const auto is_useless = is_expert && (!state.hosts_experts || now >= leaving.used + defaults::leave_idle);
  if (now >= *leaving.gives_up || is_useless || state.config.role == worker_role::gateway) {
    finish_leaving(self);
    return;
  }
  self->request(state.worker, defaults::local_request, load_atom_v)
      .then(
          [self](const lease_renewal& load) {
            auto& leaves = *self->state.leaving;
            if (!leaves.gives_up)
              return;
            const auto* host = std::get_if<expert_load>(&load.of_role);
            if (host == nullptr && load.running + load.waiting == 0)
              finish_leaving(self);
            else if (host != nullptr && std::exchange(leaves.runs, host->work.runs) != host->work.runs)
              leaves.used = self->clock().now();
          },
          [](const caf::error&) {}); // the next tick repeats the request
}

/// Drops the present scheduler, if any, and looks for one after `delay`.
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
  if (state.leaving)
    leave_alone(self);
}

/// Asks the next scheduler, after a pause if all have been asked.
void try_next(pointer self) {
  auto& state = self->state;
  const auto count = std::max<std::size_t>(state.config.scheduler_endpoints.size(), 1);
  state.endpoint = (state.endpoint + 1) % count;
  const auto has_asked_all = ++state.num_asked >= count;
  if (has_asked_all)
    state.num_asked = 0;
  look_again(self, has_asked_all ? state.pauses.next() : std::chrono::milliseconds{0});
}

/// The connection or the scheduler is gone: now its standby is more likely to answer.
void lost(pointer self) {
  auto& state = self->state;
  state.endpoint = (state.endpoint + 1) % std::max<std::size_t>(state.config.scheduler_endpoints.size(), 1);
  state.num_asked = 0;
  look_again(self, state.pauses.next());
}

/// Has no deadline of its own while the scheduler lives: the requester of the leave has one.
void ask_to_leave(pointer self) {
  auto& state = self->state;
  state.leaving->gives_up.reset();
  const auto attempt = state.attempt;
  self->request(state.scheduler, caf::infinite, caf::leave_atom_v, state.id)
      .then(
          [self, attempt] {
            if (attempt == self->state.attempt)
              finish_leaving(self);
          },
          [self, attempt](const caf::error&) {
            if (attempt == self->state.attempt)
              lost(self);
          });
}

/// Applies a change to the member's view, and passes the result on.
void pass_on(pointer self, const view_change& change) {
  auto& state = self->state;
  if (state.held.take(change, state.term) != held_view::outcome::taken)
    return;
  state.term = change.term;
  self->send(state.worker, state.held.view());
}

/// Requests the whole view after a missed change; repeats this with each renewal until it has the view.
void catch_up(pointer self) {
  auto& state = self->state;
  if (state.now != member_state::phase::joined || !state.held.is_behind()
      || state.view_asked_in == state.attempt)
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

/// Requests the worker's load and renews the lease with it.
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
            load.term = term; // the worker had this view before it answered
            load.epoch = epoch;
            self->send(self->state.scheduler, std::move(load));
          },
          [](const caf::error&) {
            // A worker that does not report its load in time must not keep its lease.
          });
}

void welcomed(pointer self, const worker_welcome& welcome) {
  auto& state = self->state;
  if (welcome.term < state.term) { // a newer scheduler's answer came first
    try_next(self);
    return;
  }
  state.term = welcome.term;
  state.pauses.reset();
  state.num_asked = 0;
  state.now = member_state::phase::joined;
  if (state.config.pulse) {
    state.config.pulse->joined();
    // An attention worker has loaded its weights before it joins, and gets no orders.
    if (state.config.role != worker_role::expert || !welcome.tells_ready)
      state.config.pulse->ready();
  }
  pass_on(self, *welcome.view);
  tell_scheduler(self, caf::actor_cast<caf::strong_actor_ptr>(state.scheduler));
  renew(self);
  if (state.leaving)
    ask_to_leave(self);
}

void refused(pointer self, const caf::error& error) {
  if (code_of(error) == ec::incompatible)
    self->quit(error);
  else
    try_next(self);
}

/// Finds the scheduler, sends the hello, awaits the welcome, each with its deadline.
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
  // A hung scheduler must not keep the member from its standby; meanwhile the transport continues dialling
  // it.
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
  if (state.now == member_state::phase::looking) {
    find_scheduler(self);
    if (state.leaving)
      leave_alone(self);
  } else if (state.now == member_state::phase::joined)
    renew(self);
}

caf::result<void> on_leave(pointer self) {
  auto& state = self->state;
  if (state.leaving)
    return make_error(ec::bad_request, "the worker leaves already");
  auto promise = self->make_response_promise<caf::unit_t>();
  state.leaving = member_state::departure{};
  state.leaving->promise = promise;
  if (state.config.pulse)
    state.config.pulse->leaves();
  if (state.now == member_state::phase::joined)
    ask_to_leave(self);
  else
    leave_alone(self);
  return promise;
}

caf::result<host_report> on_order(pointer self, const host_order& order) {
  auto& state = self->state;
  if (state.config.role != worker_role::expert)
    return make_error(ec::bad_request, "only expert workers host experts");
  if (order.term < state.term)
    return make_error(ec::stale_term, "a scheduler of term " + std::to_string(order.term)
                                          + " gives orders in term " + std::to_string(state.term));
  state.term = order.term; // an expert host gets no views
  auto promise = self->make_response_promise<host_report>();
  self->request(caf::actor_cast<host_actor>(state.config.worker), defaults::host_order_timeout, order)
      .then(
          [self, promise](host_report& report) mutable {
            self->state.hosts_experts = !report.hosted.empty();
            promise.deliver(std::move(report));
          },
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
    else if (self->state.scheduler && down.source == self->state.scheduler.address())
      lost(self);
  });
  schedule_tick(self, std::chrono::milliseconds{0});
  return {
      [self](const shared_view_change& change) {
        const auto before = self->state.held.view().experts.epoch;
        pass_on(self, *change);
        catch_up(self);
        // An old host may release an expert once every attention worker is known not to send to it any more:
        // so the next move need not wait for the next renewal.
        const auto& st = self->state;
        if (st.config.role == worker_role::attention && !change->layers.empty()
            && st.now == member_state::phase::joined && st.held.view().experts.epoch != before)
          renew(self);
      },
      [self](const host_order& order) { return on_order(self, order); },
      [self](fence_atom) {
        if (self->state.now != member_state::phase::joined || self->state.leaving)
          return;
        if (self->state.config.pulse)
          self->state.config.pulse->fenced();
        look_again(self, std::chrono::milliseconds{0});
      },
      [self](ready_atom) {
        if (self->state.config.pulse)
          self->state.config.pulse->ready();
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
