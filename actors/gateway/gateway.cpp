#include "actors/gateway/gateway.hpp"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <caf/actor_cast.hpp>
#include <caf/sec.hpp>
#include <caf/stateful_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <caf/typed_response_promise.hpp>

#include "actors/gateway/session.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/scheduler_actor.hpp"

namespace troupe {

namespace {

using time_point = caf::actor_clock::time_point;

/// An admission without an answer yet: sent to the scheduler, or held while there is no scheduler.
struct open_admission {
  admission_request request;
  caf::typed_response_promise<assignment> promise;
  caf::weak_actor_ptr session;
  std::uint64_t arrival = 0;
  std::uint64_t flight = 0; ///< number of the request to the scheduler whose answer counts; 0: held
  bool was_asked = false;   ///< was sent to some scheduler, which may still have it
  time_point deadline;      ///< of the request
  time_point expires;       ///< while held
};

struct gateway_place {
  caf::weak_actor_ptr session;
  held_place held;
  time_point last_word; ///< when the worker was last heard; as of `told`
  time_point told;      ///< when the session last reported silence
};

struct gateway_state {
  using pointer = gateway_actor::stateful_pointer<gateway_state>;

  static inline const char* name = "gateway";

  gateway_config config;
  scheduler_actor scheduler; ///< null while it is away
  time_point away_since;     ///< while it is away
  cluster_view view;
  bool has_been_ready = false;     ///< at least one view was ready
  std::uint32_t max_model_len = 0; ///< last value passed to on_context
  std::uint64_t next_arrival = 0;
  std::uint64_t next_flight = 0;
  time_point next_tick = time_point::max(); ///< when the next tick arrives
  std::map<request_id, open_admission> open;
  std::uint64_t open_bytes = 0; ///< sum of `held_bytes_of` over `open`
  std::map<request_id, gateway_place> places;
  /// Requests that ended while the scheduler was away. Bounded by the number of requests sent to it.
  std::set<request_id> unsent_done;
  std::map<worker_id, caf::strong_actor_ptr> workers; ///< under monitor
  std::map<worker_id, std::vector<caf::typed_response_promise<caf::strong_actor_ptr>>> resolving;
};

using pointer = gateway_state::pointer;

/// Bytes that an open admission counts against defaults::max_held_bytes: 0 if it is promised.
std::uint64_t held_bytes_of(const admission_request& request) {
  return is_promised(request) ? 0 : queue_bytes_of(request);
}

/// Forgets an admission that has been answered.
void close(pointer self, std::map<request_id, open_admission>::iterator found) {
  self->state.open_bytes -= held_bytes_of(found->second.request);
  self->state.open.erase(found);
}

void answer(pointer self, request_id id, const caf::error& error) {
  auto found = self->state.open.find(id);
  found->second.promise.deliver(error);
  close(self, found);
}

/// Schedules a tick at `when` unless an earlier one is scheduled.
void tick_before(pointer self, time_point when) {
  auto now = self->clock().now();
  auto at = std::min(std::max(when, now), now + time_point::duration{defaults::scheduler_away});
  if (self->state.next_tick <= at)
    return;
  self->state.next_tick = at;
  self->delayed_send(self, at - now, caf::tick_atom_v);
}

/// Keeps the request until a scheduler is there: new requests for defaults::scheduler_away, promised requests
/// until their own deadline.
void hold(pointer self, open_admission& admission) {
  auto now = self->clock().now();
  admission.flight = 0;
  admission.expires =
      is_promised(admission.request)
          ? admission.deadline
          : std::min(admission.deadline, now + time_point::duration{defaults::scheduler_away});
  tick_before(self, admission.expires);
}

void forward(pointer self, open_admission& admission);

/// @param num_tokens  length of the answer; 0: there is no answer
void tell_done(pointer self, request_id id, std::uint32_t num_tokens = 0) {
  if (!self->state.scheduler)
    self->state.unsent_done.insert(id); // without the length: the next scheduler has not seen the request
  else if (num_tokens > 0)
    self->send(self->state.scheduler, done_atom_v, id, num_tokens);
  else
    self->send(self->state.scheduler, done_atom_v, id);
}

void admission_failed(pointer self, request_id id, std::uint64_t flight, const caf::error& error) {
  auto found = self->state.open.find(id);
  if (found == self->state.open.end() || found->second.flight != flight)
    return;
  // The member reports the next scheduler, or this one once it has taken the fenced gateway back.
  if (is_peer_down(error) || code_of(error) == ec::shutting_down || code_of(error) == ec::peer_down)
    hold(self, found->second);
  else if (error == caf::sec::request_timeout) {
    answer(self, id, make_error(ec::deadline_exceeded, "the scheduler did not answer in time"));
    tell_done(self, id); // it may still answer and give a place
  } else
    answer(self, id, error);
}

void forward(pointer self, open_admission& admission) {
  auto id = admission.request.id;
  auto flight = ++self->state.next_flight;
  admission.flight = flight;
  admission.was_asked = true;
  auto request = admission.request;
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(admission.deadline - self->clock().now());
  left = std::max(left, std::chrono::milliseconds{0});
  request.deadline_ms = static_cast<std::uint64_t>(left.count());
  self->request(self->state.scheduler, left + defaults::local_request, std::move(request))
      .then(
          [self, id, flight](assignment& place) {
            auto found = self->state.open.find(id);
            if (found == self->state.open.end() || found->second.flight != flight)
              return;
            self->state.places[id] = {
                found->second.session, {id, place.worker.id, place.num_choices, place.kv_tokens}, {}, {}};
            found->second.promise.deliver(std::move(place));
            close(self, found);
          },
          [self, id, flight](const caf::error& error) { admission_failed(self, id, flight, error); });
}

caf::result<assignment> on_admission(pointer self, const admission_request& request) {
  auto& state = self->state;
  auto session = caf::actor_cast<caf::weak_actor_ptr>(self->current_sender()); // a promise takes it away
  auto promise = self->make_response_promise<assignment>();
  if (state.open.contains(request.id))
    answer(self, request.id, make_error(ec::cancelled, "the request was made again"));
  const auto bytes = held_bytes_of(request);
  if (!state.scheduler && bytes > 0 && state.open_bytes > 0
      && state.open_bytes + bytes > defaults::max_held_bytes) {
    promise.deliver(make_error(ec::overloaded, std::to_string(state.open.size())
                                                   + " requests wait for the scheduler, which is away"));
    return promise;
  }
  state.open_bytes += bytes;
  auto& admission = state.open[request.id];
  admission.request = request;
  admission.request.gateway = state.config.address.id;
  admission.promise = promise;
  admission.session = std::move(session);
  admission.arrival = state.next_arrival++;
  admission.deadline = self->clock().now() + std::chrono::milliseconds{request.deadline_ms};
  if (state.scheduler)
    forward(self, admission);
  else
    hold(self, admission);
  return promise;
}

void on_done(pointer self, request_id id, std::uint32_t num_tokens = 0) {
  auto& state = self->state;
  auto was_asked = state.places.erase(id) > 0;
  if (auto found = state.open.find(id); found != state.open.end()) {
    was_asked = was_asked || found->second.was_asked;
    answer(self, id, make_error(ec::cancelled, "the request is no longer wanted"));
  }
  if (was_asked)
    tell_done(self, id, num_tokens);
}

void on_scheduler(pointer self, const caf::strong_actor_ptr& handle) {
  auto& state = self->state;
  if (state.scheduler && !handle)
    state.away_since = self->clock().now();
  state.scheduler = caf::actor_cast<scheduler_actor>(handle);
  std::vector<open_admission*> in_order;
  for (auto& [id, admission] : state.open)
    in_order.push_back(&admission);
  std::sort(in_order.begin(), in_order.end(),
            [](const auto* l, const auto* r) { return l->arrival < r->arrival; });
  if (!state.scheduler) {
    for (auto* admission : in_order)
      if (admission->flight != 0)
        hold(self, *admission);
    return;
  }
  for (auto id : std::exchange(state.unsent_done, {}))
    self->send(state.scheduler, done_atom_v, id);
  // A queue dies with its scheduler: requests sent to an earlier one are sent again.
  for (auto* admission : in_order)
    forward(self, *admission);
}

void on_tick(pointer self) {
  auto now = self->clock().now();
  if (now >= self->state.next_tick)
    self->state.next_tick = time_point::max();
  std::vector<request_id> expired;
  for (const auto& [id, admission] : self->state.open)
    if (admission.flight == 0) {
      if (admission.expires <= now)
        expired.push_back(id);
      else
        tick_before(self, admission.expires);
    }
  for (auto id : expired) {
    auto was_asked = self->state.open.at(id).was_asked;
    answer(self, id, make_error(ec::not_ready, "the scheduler is away"));
    if (was_asked)
      tell_done(self, id);
  }
}

bool has_worker(const cluster_view& view, worker_id id) {
  return std::any_of(view.workers.begin(), view.workers.end(),
                     [id](const worker_address& worker) { return worker.id == id; });
}

void on_view(pointer self, const cluster_view& view) {
  auto& state = self->state;
  if (view.max_model_len > 0 && view.max_model_len != state.max_model_len) {
    state.max_model_len = view.max_model_len;
    if (state.config.on_context)
      state.config.on_context(view.max_model_len);
  }
  state.has_been_ready = state.has_been_ready || view.ready;
  auto previous = std::exchange(state.view, view);
  for (const auto& worker : previous.workers) {
    if (has_worker(view, worker.id))
      continue;
    if (auto found = state.workers.find(worker.id); found != state.workers.end()) {
      self->demonitor(caf::actor_cast<caf::actor_addr>(found->second));
      state.workers.erase(found);
    }
    for (const auto& [id, place] : state.places)
      if (place.held.worker == worker.id)
        if (auto session =
                caf::actor_cast<session_actor>(caf::actor_cast<caf::strong_actor_ptr>(place.session)))
          self->send(session, fence_atom_v, worker.id);
  }
}

void resolved(pointer self, worker_id id, const caf::expected<caf::strong_actor_ptr>& result) {
  auto waiting = self->state.resolving.extract(id);
  if (!waiting)
    return;
  for (auto& promise : waiting.mapped())
    if (result)
      promise.deliver(*result);
    else
      promise.deliver(result.error());
  if (result && self->state.workers.emplace(id, *result).second)
    self->monitor(caf::actor_cast<caf::actor>(*result));
}

caf::result<caf::strong_actor_ptr> on_resolve(pointer self, const worker_address& worker) {
  auto& state = self->state;
  if (auto found = state.workers.find(worker.id); found != state.workers.end())
    return found->second;
  auto promise = self->make_response_promise<caf::strong_actor_ptr>();
  auto& waiting = state.resolving[worker.id];
  waiting.push_back(promise);
  if (waiting.size() > 1)
    return promise;
  auto id = worker.id;
  auto name = worker.name;
  self->request(state.config.directory, defaults::connect_timeout, caf::resolve_atom_v, worker.endpoint, name)
      .then(
          [self, id, name](caf::strong_actor_ptr& handle) {
            if (handle)
              resolved(self, id, std::move(handle));
            else
              resolved(self, id, make_error(ec::peer_down, name + " is not there"));
          },
          [self, id, name](const caf::error& error) {
            resolved(self, id, make_error(ec::peer_down, name + " cannot be reached: " + text_of(error)));
          });
  return promise;
}

worker_hello hello_of(const gateway_state& state) {
  worker_hello hello;
  hello.address = state.config.address;
  hello.config_id = state.config.config_id;
  auto& terms = hello.of_role.emplace<gateway_terms>();
  for (const auto& [id, place] : state.places)
    terms.places.push_back(place.held);
  return hello;
}

lease_renewal load_of(const gateway_state& state, time_point now) {
  lease_renewal load;
  load.id = state.config.address.id;
  load.running = state.places.size();
  load.waiting = state.open.size();
  std::map<worker_id, std::uint64_t> silences; // the longest of each worker
  for (const auto& [id, place] : state.places) {
    if (place.told == time_point{} || now - place.told > 2 * time_point::duration{defaults::session_tick})
      continue; // the session has heard from the worker since, or no longer reports silence
    const auto silent = std::chrono::duration_cast<std::chrono::milliseconds>(now - place.last_word);
    auto& longest = silences[place.held.worker];
    longest = std::max(longest, static_cast<std::uint64_t>(silent.count()));
  }
  auto& complaints = load.of_role.emplace<gateway_load>().complaints;
  for (const auto& [worker, silent_ms] : silences)
    complaints.push_back({worker, silent_ms});
  return load;
}

caf::result<cluster_view, bool, bool> on_get(pointer self) {
  const auto& state = self->state;
  const bool away = !state.scheduler && self->clock().now() - state.away_since >= defaults::scheduler_away;
  return {state.view, away, state.has_been_ready};
}

gateway_actor::behavior_type gateway(pointer self, gateway_config config) {
  self->state.config = std::move(config);
  self->state.away_since = self->clock().now();
  self->set_down_handler([self](const caf::down_msg& down) {
    std::erase_if(self->state.workers, [&down](const auto& entry) {
      return caf::actor_cast<caf::actor_addr>(entry.second) == down.source;
    });
  });
  self->set_exit_handler([self](const caf::exit_msg& exit) {
    while (!self->state.open.empty())
      answer(self, self->state.open.begin()->first,
             make_error(ec::shutting_down, "the gateway is shutting down"));
    for (auto& [id, waiting] : self->state.resolving)
      for (auto& promise : waiting)
        promise.deliver(make_error(ec::shutting_down, "the gateway is shutting down"));
    self->state.resolving.clear();
    self->quit(exit.reason);
  });
  return {
      [self](const admission_request& request) { return on_admission(self, request); },
      [self](done_atom, request_id id) { on_done(self, id); },
      [self](done_atom, request_id id, std::uint32_t num_tokens) { on_done(self, id, num_tokens); },
      [self](silent_atom, request_id id, std::uint64_t silent_ms) {
        if (auto found = self->state.places.find(id); found != self->state.places.end()) {
          found->second.told = self->clock().now();
          found->second.last_word = found->second.told - std::chrono::milliseconds{silent_ms};
        }
      },
      [self](caf::resolve_atom, const worker_address& worker) { return on_resolve(self, worker); },
      [self](const cluster_view& view) { on_view(self, view); },
      [self](scheduler_atom, const caf::strong_actor_ptr& handle) { on_scheduler(self, handle); },
      [self](caf::tick_atom) { on_tick(self); },
      [self](caf::join_atom) { return hello_of(self->state); },
      [self](load_atom) { return load_of(self->state, self->clock().now()); },
      [self](caf::get_atom) -> caf::result<cluster_view, bool, bool> { return on_get(self); },
  };
}

} // namespace

gateway_actor spawn_gateway(caf::actor_system& system, gateway_config config) {
  return system.spawn(gateway, std::move(config));
}

} // namespace troupe
