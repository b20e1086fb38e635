#include "actors/expert/expert_host.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <caf/actor_system.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/engine/actor_runner.hpp"
#include "actors/engine/engine_watch.hpp"
#include "actors/expert/expert_batch_check.hpp"
#include "actors/expert/expert_host_metrics.hpp"
#include "actors/expert/expert_queue.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

namespace {

using time_point = expert_queue::time_point;

uint64_t nanoseconds_between(time_point from, time_point to) {
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

/// A batch from its arrival to its answer.
struct accepted_batch {
  expert_batch batch;
  caf::typed_response_promise<expert_result> promise;
  time_point arrived;
  uint64_t queue_ns = 0;
  uint64_t received_ns = 0; ///< where it is traced
  uint64_t step = 0;        ///< that computes it
};

/// An order that is not answered yet.
struct pending_order {
  host_order order;
  caf::typed_response_promise<host_report> promise;
  bool loading = false; ///< the engine is at it
};

struct expert_host_state {
  static inline const char* name = "expert_host";

  expert_host_config config;
  expert_queue queue{0, {}};
  std::map<expert_queue::ticket, accepted_batch> batches; ///< queued or computed
  std::map<uint64_t, std::vector<expert_queue::ticket>> steps;
  uint64_t held_rows = 0; ///< of `batches`
  engine_watch watch;
  uint64_t last_ticket = 0;
  uint64_t last_step = 0;
  /// In the engine, and in all orders that it has been handed: it drops before it loads.
  std::set<expert_id> loaded;
  std::set<expert_id> serving; ///< of those, what new batches may use
  std::map<uint64_t, pending_order> orders;
  uint64_t last_order = 0;                ///< our own count, not the scheduler's
  std::pair<uint64_t, uint64_t> newest{}; ///< (term, order) of the newest order
  bool linger_armed = false;
  expert_host_status status;
  expert_work work;
};

using host_pointer = expert_host_actor::stateful_pointer<expert_host_state>;

void refuse(host_pointer self, caf::typed_response_promise<expert_result>& promise, ec code,
            const std::string& text) {
  if (self->state.config.metrics)
    self->state.config.metrics->on_refusal(code);
  promise.deliver(make_error(code, text));
}

std::string names_of(const expert_host_state& state, const expert_batch& batch, uint32_t expert) {
  return "expert " + std::to_string(expert) + " of layer " + std::to_string(batch.layer)
         + " is not hosted by " + state.config.address.name + " (the batch goes by version "
         + std::to_string(batch.layer_version) + " of the layer's placement)";
}

void keep_only(std::set<expert_id>& experts, const host_order& order) {
  const std::set<expert_id> kept{order.experts.begin(), order.experts.end()};
  std::erase_if(experts, [&](expert_id id) { return kept.count(id) == 0; });
}

/// True while an accepted batch needs an expert that the engine would drop for `order`.
bool work_needs_released(const expert_host_state& state, const host_order& order) {
  const std::set<expert_id> kept{order.experts.begin(), order.experts.end()};
  for (const auto& [ticket, accepted] : state.batches)
    for (const auto expert : accepted.batch.experts)
      if (kept.count({accepted.batch.layer, expert}) == 0)
        return true;
  return false;
}

/// How the engine gets experts of an order from other workers; nothing where it reads files.
expert_fetch fetch_for(const expert_host_state& state, const host_order& order) {
  if (!state.config.fetcher)
    return {};
  std::map<expert_id, std::vector<worker_address>> sources;
  for (const auto& source : order.sources)
    for (const auto id : source.experts)
      sources[id].push_back(source.worker);
  // Neighbours begin with other workers, so that none of them has to send everything.
  for (auto& [id, workers] : sources)
    std::rotate(workers.begin(), workers.begin() + id.index % workers.size(), workers.end());
  return [fetcher = state.config.fetcher, sources = std::move(sources)](
             expert_id id, std::shared_ptr<expert_sink> sink, expert_fetch_done done) {
    const auto found = sources.find(id);
    auto workers = found == sources.end() ? std::vector<worker_address>{} : found->second;
    caf::anon_send(fetcher,
                   std::make_shared<weights_job>(id, std::move(workers), std::move(sink), std::move(done)));
  };
}

/// Hands the newest order to the engine once no accepted batch needs what it releases.
void apply_order(host_pointer self) {
  auto& st = self->state;
  if (st.orders.empty())
    return;
  auto& [number, pending] = *st.orders.rbegin();
  if (pending.loading || work_needs_released(st, pending.order))
    return;
  pending.loading = true;
  keep_only(st.loaded, pending.order);
  st.config.engine->host(
      pending.order.experts, fetch_for(st, pending.order),
      [host = caf::actor_cast<caf::weak_actor_ptr>(self), order = number](expert_load_result result) {
        post_result<expert_host_actor>(host, std::make_shared<expert_load_done_message>(
                                                 expert_load_done_message{order, std::move(result)}));
      });
}

void start_steps(host_pointer self) {
  auto& st = self->state;
  auto started = false;
  while (st.steps.size() < st.config.max_steps_in_flight) {
    uint32_t layer = 0;
    const auto now = self->clock().now();
    auto tickets = st.queue.next(now, layer);
    if (tickets.empty())
      break;
    expert_step step;
    step.layer = layer;
    for (const auto ticket : tickets) {
      auto& accepted = st.batches.at(ticket);
      auto& batch = accepted.batch;
      accepted.queue_ns = nanoseconds_between(accepted.arrived, now);
      const auto index = static_cast<uint32_t>(step.batches.size());
      for (size_t i = 0; i < batch.experts.size(); ++i) {
        const auto first = batch.offsets[i];
        step.work.push_back({batch.experts[i],
                             index,
                             first,
                             {batch.rows.begin() + first, batch.rows.begin() + batch.offsets[i + 1]}});
      }
      step.batches.push_back({static_cast<uint32_t>(batch.rows.size()), std::move(batch.activations)});
    }
    std::stable_sort(step.work.begin(), step.work.end(),
                     [](const expert_rows& lhs, const expert_rows& rhs) { return lhs.expert < rhs.expert; });
    const auto number = ++st.last_step;
    for (const auto ticket : tickets) {
      auto& accepted = st.batches.at(ticket);
      accepted.step = number;
      if (accepted.batch.flow != 0)
        step.trace = number;
    }
    st.steps.emplace(number, std::move(tickets));
    st.watch.begin(number, now);
    st.config.engine->submit(std::move(step), [host = caf::actor_cast<caf::weak_actor_ptr>(self),
                                               number](expert_step_result result) {
      post_result<expert_host_actor>(
          host, std::make_shared<expert_step_done>(expert_step_done{number, std::move(result)}));
    });
    started = true;
  }
  if (started && st.config.metrics)
    st.config.metrics->on_queue(st.queue.queued_rows());
  const auto lingers = st.queue.lingers_until();
  if (lingers && !st.linger_armed && st.steps.size() < st.config.max_steps_in_flight) {
    st.linger_armed = true;
    self->delayed_send(self, std::max(*lingers - self->clock().now(), std::chrono::nanoseconds{0}),
                       linger_atom_v);
  }
}

caf::result<expert_result> accept(host_pointer self, const expert_batch& batch) {
  auto& st = self->state;
  auto promise = self->make_response_promise<expert_result>();
  const auto received_ns = batch.flow == 0 ? 0 : timeline::now_ns();
  timeline::span accepting(timeline::event_kind::accept_batch, batch.flow);
  accepting.args() = {batch.layer, batch.num_rows};
  const auto flaw = flaw_of(batch, st.config.engine->shape());
  if (!flaw.empty()) {
    refuse(self, promise, ec::bad_request, flaw);
    return promise;
  }
  for (const auto expert : batch.experts)
    if (st.serving.count({batch.layer, expert}) == 0) {
      refuse(self, promise, ec::not_hosted, names_of(st, batch, expert));
      return promise;
    }
  const auto now = self->clock().now();
  const auto ticket = ++st.last_ticket;
  if (!st.queue.add(ticket, batch.layer, static_cast<uint32_t>(batch.rows.size()), now)) {
    refuse(self, promise, ec::overloaded,
           std::to_string(st.queue.queued_rows()) + " rows wait in " + st.config.address.name
               + ", and it takes no more than " + std::to_string(st.config.max_queued_rows));
    return promise;
  }
  st.held_rows += batch.rows.size();
  st.batches.emplace(ticket, accepted_batch{batch, promise, now, 0, received_ns, 0});
  if (st.config.metrics)
    st.config.metrics->on_queue(st.queue.queued_rows());
  start_steps(self);
  return promise;
}

/// @returns when the answer leaves
uint64_t trace_answer(const accepted_batch& accepted, uint64_t compute_ns) {
  const auto& batch = accepted.batch;
  timeline::event served{.kind = timeline::event_kind::host_batch, .begin_ns = accepted.received_ns};
  served.id = batch.flow;
  const auto now_ns = timeline::now_ns();
  served.duration_ns = now_ns - accepted.received_ns;
  served.args = {batch.layer, batch.num_rows, accepted.queue_ns, compute_ns, accepted.step};
  timeline::record(served);
  return now_ns;
}

void answer_batch(host_pointer self, accepted_batch& accepted, payload outputs, uint64_t compute_ns) {
  auto& st = self->state;
  const auto& batch = accepted.batch;
  expert_result result;
  result.batch = batch.batch;
  result.outputs = std::move(outputs);
  result.queue_ns = accepted.queue_ns;
  result.compute_ns = compute_ns;
  result.queued_rows = st.held_rows;
  ++st.status.batches;
  st.status.rows += batch.rows.size();
  if (st.config.metrics)
    st.config.metrics->on_batch(batch.layer, static_cast<uint32_t>(batch.rows.size()), accepted.queue_ns,
                                compute_ns);
  timeline::span answering(timeline::event_kind::answer_batch, batch.flow);
  if (batch.flow != 0) {
    result.received_ns = accepted.received_ns;
    result.answered_ns = trace_answer(accepted, compute_ns);
  }
  accepted.promise.deliver(std::move(result));
}

/// @param rows  [experts of the layer] of one step
void count_work(expert_work& work, const std::vector<uint64_t>& rows, uint64_t compute_ns) {
  work.busy_ns += compute_ns;
  for (const auto count : rows) {
    work.runs += count > 0 ? 1 : 0;
    work.rows += count;
  }
}

void finish_step(host_pointer self, expert_step_done& done) {
  auto& st = self->state;
  const auto step = st.steps.find(done.step);
  if (step == st.steps.end())
    return;
  st.watch.end(done.step, self->clock().now());
  const auto tickets = std::move(step->second);
  st.steps.erase(step);
  ++st.status.steps;
  auto& result = done.result;
  if (result.error.empty() && result.outputs.size() != tickets.size())
    result.error = "the engine answered " + std::to_string(result.outputs.size()) + " of "
                   + std::to_string(tickets.size()) + " batches";
  for (const auto ticket : tickets)
    st.held_rows -= st.batches.at(ticket).batch.rows.size();
  std::vector<uint64_t> rows;
  for (size_t i = 0; i < tickets.size(); ++i) {
    auto node = st.batches.extract(tickets[i]);
    auto& accepted = node.mapped();
    if (!result.error.empty()) {
      refuse(self, accepted.promise, ec::engine_failed, st.config.address.name + ": " + result.error);
      continue;
    }
    const auto& batch = accepted.batch;
    rows.resize(st.config.engine->shape().layer_experts[batch.layer]);
    for (size_t e = 0; e < batch.experts.size(); ++e)
      rows[batch.experts[e]] += batch.offsets[e + 1] - batch.offsets[e];
    if (i + 1 == tickets.size())
      count_work(st.work, rows, result.compute_ns);
    if (i + 1 == tickets.size() && st.config.metrics)
      st.config.metrics->on_step(batch.layer, static_cast<uint32_t>(tickets.size()), rows, result.compute_ns);
    answer_batch(self, accepted, std::move(result.outputs[i]), result.compute_ns);
  }
  apply_order(self);
  start_steps(self);
}

/// Why an order cannot be carried out; empty when it can.
std::string flaw_of(const host_order& order, const expert_host_config& config) {
  const auto& layers = config.engine->shape().layer_experts;
  for (const auto id : order.experts)
    if (id.layer >= layers.size() || id.index >= layers[id.layer])
      return "the model has no expert " + std::to_string(id.index) + " in layer " + std::to_string(id.layer);
  const auto wanted = order.experts.size() * config.engine->expert_bytes();
  if (config.expert_memory_bytes > 0 && wanted > config.expert_memory_bytes)
    return std::to_string(order.experts.size()) + " experts take " + std::to_string(wanted) + " bytes, and "
           + config.address.name + " may hold " + std::to_string(config.expert_memory_bytes);
  return {};
}

host_report report_of(const expert_host_state& state, const host_order& order, std::string error) {
  return {order.term, order.order, {state.serving.begin(), state.serving.end()}, std::move(error)};
}

caf::result<host_report> obey(host_pointer self, const host_order& order) {
  auto& st = self->state;
  auto promise = self->make_response_promise<host_report>();
  const auto age = std::pair{order.term, order.order};
  if (age < st.newest) {
    promise.deliver(make_error(ec::stale_term, "order " + std::to_string(order.order) + " of term "
                                                   + std::to_string(order.term)
                                                   + " is older than one that is known"));
    return promise;
  }
  st.newest = age;
  if (const auto flaw = flaw_of(order, st.config); !flaw.empty()) {
    promise.deliver(report_of(st, order, flaw));
    return promise;
  }
  // Older orders are void; what the engine already does for them goes on and is reported with this one.
  for (auto& [number, older] : st.orders)
    if (older.promise.pending())
      older.promise.deliver(report_of(st, older.order, "replaced by order " + std::to_string(order.order)));
  std::erase_if(st.orders, [](const auto& entry) { return !entry.second.loading; });
  const std::set<expert_id> wanted{order.experts.begin(), order.experts.end()};
  st.serving = st.loaded;
  keep_only(st.serving, order);
  auto cleaned = order;
  cleaned.experts.assign(wanted.begin(), wanted.end());
  st.orders.emplace(++st.last_order, pending_order{std::move(cleaned), promise});
  apply_order(self);
  return promise;
}

void finish_load(host_pointer self, expert_load_done_message& done) {
  auto& st = self->state;
  const auto found = st.orders.find(done.order);
  if (found == st.orders.end())
    return;
  auto pending = std::move(found->second);
  st.orders.erase(found);
  st.loaded = {done.result.hosted.begin(), done.result.hosted.end()};
  for (const auto& [number, later] : st.orders)
    if (later.loading) // the engine is at it by now, and has dropped what it leaves out
      keep_only(st.loaded, later.order);
  st.serving = st.loaded;
  keep_only(st.serving, st.orders.empty() ? pending.order : st.orders.rbegin()->second.order);
  if (st.config.metrics)
    st.config.metrics->on_hosted(st.serving.size(), st.serving.size() * st.config.engine->expert_bytes());
  if (pending.promise.pending())
    pending.promise.deliver(report_of(st, pending.order, std::move(done.result.error)));
}

worker_hello hello_of(expert_host_state& state, time_point now) {
  const auto& shape = state.config.engine->shape();
  worker_hello result;
  result.address = state.config.address;
  result.fingerprint = shape.fingerprint;
  result.numerics_class = shape.numerics_class;
  result.layer_experts = shape.layer_experts;
  result.expert_memory_bytes = state.config.expert_memory_bytes;
  result.expert_bytes = state.config.engine->expert_bytes();
  result.hosted = {state.serving.begin(), state.serving.end()};
  result.weights = state.config.weights;
  result.engine = state.watch.look(now);
  return result;
}

/// A promise that dies with its actor is never answered: answer all of them first.
void answer_all(host_pointer self) {
  auto& st = self->state;
  const auto error = make_error(ec::shutting_down, st.config.address.name + " shuts down");
  for (auto& [ticket, accepted] : st.batches)
    accepted.promise.deliver(error);
  for (auto& [number, pending] : st.orders)
    if (pending.promise.pending())
      pending.promise.deliver(error);
  st.batches.clear();
  st.held_rows = 0;
  st.orders.clear();
}

expert_host_actor::behavior_type expert_host(host_pointer self, expert_host_config config) {
  auto& state = self->state;
  state.config = std::move(config);
  expert_queue::limits limits;
  limits.max_queued_rows = state.config.max_queued_rows;
  limits.linger = state.config.linger;
  state.queue =
      expert_queue{static_cast<uint32_t>(state.config.engine->shape().layer_experts.size()), limits};
  if (state.config.metrics)
    state.config.metrics->on_bounds(state.config.max_queued_rows, state.config.expert_memory_bytes);
  self->set_exit_handler([self](caf::exit_msg& message) {
    answer_all(self);
    self->quit(std::move(message.reason));
  });
  return {
      [self](const expert_batch& batch) { return accept(self, batch); },
      [self](const host_order& order) { return obey(self, order); },
      [self](caf::join_atom) { return hello_of(self->state, self->clock().now()); },
      [self](load_atom) {
        auto& st = self->state;
        lease_renewal result;
        result.id = st.config.address.id;
        result.running = st.batches.size();
        result.waiting = st.queue.queued_rows();
        result.engine = st.watch.look(self->clock().now());
        if (st.config.metrics)
          st.config.metrics->on_engine(result.engine);
        result.work = st.work;
        return result;
      },
      [](const cluster_view&) {},
      [self](const expert_step_ptr& done) { finish_step(self, *done); },
      [self](const expert_load_ptr& done) { finish_load(self, *done); },
      [self](linger_atom) {
        self->state.linger_armed = false;
        start_steps(self);
      },
      [self](status_atom) {
        auto& st = self->state;
        st.status.hosted = {st.serving.begin(), st.serving.end()};
        st.status.queued_rows = st.queue.queued_rows();
        return st.status;
      },
  };
}

} // namespace

expert_host_actor spawn_expert_host(caf::actor_system& system, expert_host_config config) {
  return system.spawn(expert_host, std::move(config));
}

} // namespace troupe
