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
using result_promise = caf::typed_response_promise<expert_result>;

std::uint64_t nanoseconds_between(time_point from, time_point to) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(to - from).count());
}

/// A batch from its arrival to its answer.
struct accepted_batch {
  expert_batch batch;
  result_promise promise;
  time_point arrived;
  std::uint64_t queue_ns = 0;
  std::uint64_t received_ns = 0; ///< 0: it is not traced
  std::uint64_t step = 0;        ///< number of the step that computes it
};

/// An order that is not answered yet.
struct pending_order {
  host_order order;
  caf::typed_response_promise<host_report> promise;
  bool loading = false; ///< handed to the engine
};

void keep_only(std::set<expert_id>& experts, const host_order& order) {
  const std::set<expert_id> kept{order.experts.begin(), order.experts.end()};
  std::erase_if(experts, [&](expert_id id) { return kept.count(id) == 0; });
}

/// @returns when the answer leaves
std::uint64_t trace_answer(const accepted_batch& accepted, std::uint64_t compute_ns) {
  const auto& batch = accepted.batch;
  timeline::event served{.kind = timeline::event_kind::host_batch, .begin_ns = accepted.received_ns};
  served.id = batch.flow;
  const auto now_ns = timeline::now_ns();
  served.duration_ns = now_ns - accepted.received_ns;
  served.args = {batch.layer, batch.num_rows, accepted.queue_ns, compute_ns, accepted.step};
  timeline::record(served);
  return now_ns;
}

/// @param rows  [experts of the layer] of one step
void count_work(expert_work& work, const std::vector<std::uint64_t>& rows, std::uint64_t compute_ns) {
  work.busy_ns += compute_ns;
  for (const auto count : rows) {
    work.runs += count > 0 ? 1 : 0;
    work.rows += count;
  }
}

/// @returns why an order cannot be carried out; empty if it can
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

/// State of the expert host actor: batches become steps of the engine, and orders change what it holds.
class expert_host_state {
 public:
  using pointer = local_expert_host_actor::stateful_pointer<expert_host_state>;

  static inline const char* name = "expert_host";

  void start(pointer actor, expert_host_config config) {
    self_ = actor;
    config_ = std::move(config);
    queue_ = expert_queue{static_cast<std::uint32_t>(config_.engine->shape().layer_experts.size()),
                          {.max_queued_rows = config_.max_queued_rows, .linger = config_.linger}};
    if (config_.metrics)
      config_.metrics->on_bounds(config_.max_queued_rows, config_.expert_memory_bytes);
  }

  caf::result<expert_result> accept(const expert_batch& batch) {
    auto promise = self_->make_response_promise<expert_result>();
    const auto received_ns = batch.flow == 0 ? 0 : timeline::now_ns();
    timeline::span accepting(timeline::event_kind::accept_batch, batch.flow);
    accepting.args() = {batch.layer, batch.num_rows};
    const auto flaw = flaw_of(batch, config_.engine->shape());
    if (!flaw.empty())
      return refuse(promise, ec::bad_request, flaw);
    for (const auto expert : batch.experts)
      if (serving_.count({batch.layer, expert}) == 0)
        return refuse(promise, ec::not_hosted, not_hosted(batch, expert));
    const auto now = self_->clock().now();
    const auto ticket = ++last_ticket_;
    if (!queue_.add(ticket, batch.layer, static_cast<std::uint32_t>(batch.rows.size()), now))
      return refuse(promise, ec::overloaded,
                    std::to_string(queue_.queued_rows()) + " rows wait in " + config_.address.name
                        + ", and it takes no more than " + std::to_string(config_.max_queued_rows));
    held_rows_ += batch.rows.size();
    batches_.emplace(ticket, accepted_batch{batch, promise, now, 0, received_ns, 0});
    if (config_.metrics)
      config_.metrics->on_queue(queue_.queued_rows());
    start_steps();
    return promise;
  }

  void finish_step(expert_step_done& done) {
    const auto step = steps_.find(done.step);
    if (step == steps_.end())
      return;
    watch_.end(done.step, self_->clock().now());
    const auto tickets = std::move(step->second);
    steps_.erase(step);
    ++status_.steps;
    auto& result = done.result;
    if (result.error.empty() && result.outputs.size() != tickets.size())
      result.error = "the engine answered " + std::to_string(result.outputs.size()) + " of "
                     + std::to_string(tickets.size()) + " batches";
    for (const auto ticket : tickets)
      held_rows_ -= batches_.at(ticket).batch.rows.size();
    std::vector<std::uint64_t> rows;
    for (std::size_t i = 0; i < tickets.size(); ++i) {
      auto node = batches_.extract(tickets[i]);
      auto& accepted = node.mapped();
      if (!result.error.empty()) {
        refuse(accepted.promise, ec::engine_failed, config_.address.name + ": " + result.error);
        continue;
      }
      const auto& batch = accepted.batch;
      rows.resize(config_.engine->shape().layer_experts[batch.layer]);
      for (std::size_t e = 0; e < batch.experts.size(); ++e)
        rows[batch.experts[e]] += batch.offsets[e + 1] - batch.offsets[e];
      if (i + 1 == tickets.size())
        count_work(work_, rows, result.compute_ns);
      if (i + 1 == tickets.size() && config_.metrics)
        config_.metrics->on_step(batch.layer, static_cast<std::uint32_t>(tickets.size()), rows,
                                 result.compute_ns);
      answer_batch(accepted, std::move(result.outputs[i]), result.compute_ns);
    }
    apply_order();
    start_steps();
  }

  void end_linger() {
    linger_armed_ = false;
    start_steps();
  }

  caf::result<host_report> obey(const host_order& order) {
    auto promise = self_->make_response_promise<host_report>();
    const auto age = std::pair{order.term, order.order};
    if (age < newest_) {
      promise.deliver(make_error(ec::stale_term, "order " + std::to_string(order.order) + " of term "
                                                     + std::to_string(order.term)
                                                     + " is older than one that is known"));
      return promise;
    }
    newest_ = age;
    if (const auto flaw = flaw_of(order, config_); !flaw.empty()) {
      promise.deliver(report_of(order, flaw));
      return promise;
    }
    // Older orders are void. A load that the engine has begun for one goes on, and this order reports it.
    for (auto& [number, older] : orders_)
      if (older.promise.pending())
        older.promise.deliver(report_of(older.order, "replaced by order " + std::to_string(order.order)));
    std::erase_if(orders_, [](const auto& entry) { return !entry.second.loading; });
    const std::set<expert_id> wanted{order.experts.begin(), order.experts.end()};
    serving_ = loaded_;
    keep_only(serving_, order);
    auto cleaned = order;
    cleaned.experts.assign(wanted.begin(), wanted.end());
    orders_.emplace(++last_order_, pending_order{std::move(cleaned), promise});
    apply_order();
    return promise;
  }

  void finish_load(expert_load_done_message& done) {
    const auto found = orders_.find(done.order);
    if (found == orders_.end())
      return;
    auto pending = std::move(found->second);
    orders_.erase(found);
    loaded_ = {done.result.hosted.begin(), done.result.hosted.end()};
    for (const auto& [number, later] : orders_)
      if (later.loading) // the engine has dropped the experts that it leaves out
        keep_only(loaded_, later.order);
    serving_ = loaded_;
    keep_only(serving_, orders_.empty() ? pending.order : orders_.rbegin()->second.order);
    if (config_.metrics)
      config_.metrics->on_hosted(serving_.size(), serving_.size() * config_.engine->expert_bytes());
    if (pending.promise.pending())
      pending.promise.deliver(report_of(pending.order, std::move(done.result.error)));
  }

  worker_hello hello() {
    const auto& shape = config_.engine->shape();
    worker_hello result;
    result.address = config_.address;
    result.fingerprint = shape.fingerprint;
    result.config_id = shape.config_id;
    result.numerics_class = shape.numerics_class;
    result.layer_experts = shape.layer_experts;
    result.engine = watch_.look(self_->clock().now());
    result.of_role = expert_terms{.memory_bytes = config_.expert_memory_bytes,
                                  .expert_bytes = config_.engine->expert_bytes(),
                                  .hosted = {serving_.begin(), serving_.end()},
                                  .weights = config_.weights,
                                  .topology = config_.topology};
    return result;
  }

  lease_renewal load() {
    lease_renewal result;
    result.id = config_.address.id;
    result.running = batches_.size();
    result.waiting = queue_.queued_rows();
    result.engine = watch_.look(self_->clock().now());
    if (config_.metrics)
      config_.metrics->on_engine(result.engine);
    result.of_role = expert_load{work_};
    return result;
  }

  expert_host_status status() {
    status_.hosted = {serving_.begin(), serving_.end()};
    status_.queued_rows = queue_.queued_rows();
    return status_;
  }

  /// CAF does not answer a promise whose actor ends: answers all of them.
  void answer_all() {
    const auto error = make_error(ec::shutting_down, config_.address.name + " shuts down");
    for (auto& [ticket, accepted] : batches_)
      accepted.promise.deliver(error);
    for (auto& [number, pending] : orders_)
      if (pending.promise.pending())
        pending.promise.deliver(error);
    batches_.clear();
    held_rows_ = 0;
    orders_.clear();
  }

 private:
  void start_steps() {
    auto started = false;
    while (steps_.size() < config_.max_steps_in_flight) {
      std::uint32_t layer = 0;
      const auto now = self_->clock().now();
      auto tickets = queue_.next(now, layer);
      if (tickets.empty())
        break;
      expert_step step;
      step.layer = layer;
      for (const auto ticket : tickets) {
        auto& accepted = batches_.at(ticket);
        auto& batch = accepted.batch;
        accepted.queue_ns = nanoseconds_between(accepted.arrived, now);
        const auto index = static_cast<std::uint32_t>(step.batches.size());
        for (std::size_t i = 0; i < batch.experts.size(); ++i) {
          const auto first = batch.offsets[i];
          step.work.push_back({batch.experts[i],
                               index,
                               first,
                               {batch.rows.begin() + first, batch.rows.begin() + batch.offsets[i + 1]}});
        }
        step.batches.push_back({static_cast<std::uint32_t>(batch.rows.size()), std::move(batch.activations)});
      }
      std::stable_sort(
          step.work.begin(), step.work.end(),
          [](const expert_rows& lhs, const expert_rows& rhs) { return lhs.expert < rhs.expert; });
      const auto number = ++last_step_;
      for (const auto ticket : tickets) {
        auto& accepted = batches_.at(ticket);
        accepted.step = number;
        if (accepted.batch.flow != 0)
          step.trace = number;
      }
      steps_.emplace(number, std::move(tickets));
      watch_.begin(number, now);
      config_.engine->submit(std::move(step), [host = caf::actor_cast<caf::weak_actor_ptr>(self_),
                                               number](expert_step_result result) {
        post_result<local_expert_host_actor>(
            host, std::make_shared<expert_step_done>(expert_step_done{number, std::move(result)}));
      });
      started = true;
    }
    if (started && config_.metrics)
      config_.metrics->on_queue(queue_.queued_rows());
    const auto lingers = queue_.lingers_until();
    if (lingers && !linger_armed_ && steps_.size() < config_.max_steps_in_flight) {
      linger_armed_ = true;
      self_->delayed_send(self_, std::max(*lingers - self_->clock().now(), std::chrono::nanoseconds{0}),
                          linger_atom_v);
    }
  }

  void answer_batch(accepted_batch& accepted, payload outputs, std::uint64_t compute_ns) {
    const auto& batch = accepted.batch;
    expert_result result;
    result.batch = batch.batch;
    result.outputs = std::move(outputs);
    result.queue_ns = accepted.queue_ns;
    result.compute_ns = compute_ns;
    result.queued_rows = held_rows_;
    ++status_.batches;
    status_.rows += batch.rows.size();
    if (config_.metrics)
      config_.metrics->on_batch(batch.layer, static_cast<std::uint32_t>(batch.rows.size()), accepted.queue_ns,
                                compute_ns);
    timeline::span answering(timeline::event_kind::answer_batch, batch.flow);
    if (batch.flow != 0) {
      result.received_ns = accepted.received_ns;
      result.answered_ns = trace_answer(accepted, compute_ns);
    }
    accepted.promise.deliver(std::move(result));
  }

  /// @returns `promise`
  result_promise refuse(result_promise& promise, ec code, const std::string& text) {
    if (config_.metrics)
      config_.metrics->on_refusal(code);
    promise.deliver(make_error(code, text));
    return promise;
  }

  std::string not_hosted(const expert_batch& batch, std::uint32_t expert) const {
    return "expert " + std::to_string(expert) + " of layer " + std::to_string(batch.layer)
           + " is not hosted by " + config_.address.name + " (the batch goes by version "
           + std::to_string(batch.layer_version) + " of the layer's placement)";
  }

  /// Hands the newest order to the engine once no accepted batch needs what it releases.
  void apply_order() {
    if (orders_.empty())
      return;
    auto& [number, pending] = *orders_.rbegin();
    if (pending.loading || work_needs_released(pending.order))
      return;
    pending.loading = true;
    keep_only(loaded_, pending.order);
    config_.engine->host(
        pending.order.experts, fetch_for(pending.order),
        [host = caf::actor_cast<caf::weak_actor_ptr>(self_), order = number](expert_load_result result) {
          post_result<local_expert_host_actor>(host, std::make_shared<expert_load_done_message>(
                                                         expert_load_done_message{order, std::move(result)}));
        });
  }

  /// True while an accepted batch needs an expert that the engine would drop for `order`.
  bool work_needs_released(const host_order& order) const {
    const std::set<expert_id> kept{order.experts.begin(), order.experts.end()};
    for (const auto& [ticket, accepted] : batches_)
      for (const auto expert : accepted.batch.experts)
        if (kept.count({accepted.batch.layer, expert}) == 0)
          return true;
    return false;
  }

  /// How the engine fetches experts of an order from other workers; empty if it reads files.
  expert_fetch fetch_for(const host_order& order) const {
    if (!config_.fetcher)
      return {};
    std::map<expert_id, std::vector<worker_address>> sources;
    for (const auto& source : order.sources)
      for (const auto id : source.experts)
        sources[id].push_back(source.worker);
    // Adjacent experts start with different workers, so that no worker sends them all.
    for (auto& [id, workers] : sources)
      std::rotate(workers.begin(), workers.begin() + id.index % workers.size(), workers.end());
    return [fetcher = config_.fetcher, sources = std::move(sources)](
               expert_id id, std::shared_ptr<expert_sink> sink, expert_fetch_done done) {
      const auto found = sources.find(id);
      auto workers = found == sources.end() ? std::vector<worker_address>{} : found->second;
      caf::anon_send(fetcher,
                     std::make_shared<weights_job>(id, std::move(workers), std::move(sink), std::move(done)));
    };
  }

  host_report report_of(const host_order& order, std::string error) const {
    return {order.term, order.order, {serving_.begin(), serving_.end()}, std::move(error)};
  }

  pointer self_ = nullptr;
  expert_host_config config_;
  expert_queue queue_{0, {}};
  std::map<expert_queue::ticket, accepted_batch> batches_; ///< queued, or at the engine
  std::map<std::uint64_t, std::vector<expert_queue::ticket>> steps_;
  std::uint64_t held_rows_ = 0; ///< of `batches_`
  engine_watch watch_;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t last_step_ = 0;
  /// Experts in the engine that no order handed to it drops: the engine drops before it loads.
  std::set<expert_id> loaded_;
  std::set<expert_id> serving_; ///< those of `loaded_` that new batches may use
  std::map<std::uint64_t, pending_order> orders_;
  std::uint64_t last_order_ = 0;                     ///< the host's own count, not the scheduler's
  std::pair<std::uint64_t, std::uint64_t> newest_{}; ///< (term, order) of the newest order
  bool linger_armed_ = false;
  expert_host_status status_;
  expert_work work_;
};

local_expert_host_actor::behavior_type expert_host(expert_host_state::pointer self,
                                                   expert_host_config config) {
  auto& state = self->state;
  state.start(self, std::move(config));
  self->set_exit_handler([self](caf::exit_msg& message) {
    self->state.answer_all();
    self->quit(std::move(message.reason));
  });
  return {
      [&state](const expert_batch& batch) { return state.accept(batch); },
      [&state](const host_order& order) { return state.obey(order); },
      [&state](caf::join_atom) { return state.hello(); },
      [&state](load_atom) { return state.load(); },
      [](const cluster_view&) {},
      [&state](const expert_step_ptr& done) { state.finish_step(*done); },
      [&state](const expert_load_ptr& done) { state.finish_load(*done); },
      [&state](linger_atom) { state.end_linger(); },
      [&state](status_atom) { return state.status(); },
  };
}

} // namespace

expert_host_actor spawn_expert_host(caf::actor_system& system, expert_host_config config) {
  return system.spawn(expert_host, std::move(config));
}

} // namespace troupe
