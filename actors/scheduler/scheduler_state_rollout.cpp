// scheduler_state: from what has changed to a target, a publication, and orders to the expert hosts.
#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "actors/scheduler/scheduler_state.hpp"

namespace troupe {

void scheduler_state::step() {
  place_requests();
  finish_departures();
  finish_moves();
  if (!config_.metrics)
    return;
  config_.metrics->on_requests(admission_.num_queued(), admission_.queued_bytes(), admission_.num_placed());
  const auto memory = admission_.kv_tokens();
  config_.metrics->on_memory({memory.reserved, memory.used, memory.capacity, admission_.likely_new_tokens()});
}

void scheduler_state::act_soon() {
  has_settled_ = false;
  if (!std::exchange(is_gathering_, true))
    self_->delayed_send(self_, defaults::gather_changes, gather_atom_v);
}

void scheduler_state::act_at_once() {
  has_settled_ = false;
  if (last_publication_ && now() - *last_publication_ < defaults::gather_changes)
    act_soon();
  else
    act();
}

void scheduler_state::gathered() {
  is_gathering_ = false;
  act();
  step();
}

void scheduler_state::act() {
  if (is_recovering() || is_doubtful())
    return;
  has_target_ = has_target_ || members_.count(worker_role::expert) >= config_.min_expert_workers;
  const auto loaded = [this](expert_id expert) { return rollout_.hosts_with(expert); };
  if (has_target_ && target_.wants_repair())
    rollout_.retarget(target_.repair(loaded));
  if (has_target_ && rescue_orphans())
    rollout_.retarget(target_.repair(loaded));
  if (view_changed_ || rollout_.wants_route())
    publish();
  issue_orders();
  settle_if_stuck();
}

void scheduler_state::publish() {
  view_changed_ = false;
  last_publication_ = now();
  told_before_.reset(); // whoever remembers it would be back
  const auto routing = rollout_.route(term_, ++epoch_);
  const auto ready = rollout_.is_complete() && members_.count(worker_role::attention) > 0;
  if (ready != published_.ready)
    event(ready ? "cluster-ready" : "cluster-not-ready",
          std::to_string(members_.count(worker_role::attention)) + " attention workers, "
              + std::to_string(members_.count(worker_role::expert)) + " expert workers, context of up to "
              + std::to_string(admission_.longest_context()) + " tokens"
              + (ready ? "" : "; every expert needs a host, and requests an attention worker"));
  next_ = view_publisher_.change(published_, routing, members_, ready,
                                 static_cast<uint32_t>(admission_.longest_context()), missed_);
  broadcast();
  save();
}

void scheduler_state::issue_orders() {
  const auto hosts = rollout_.hosts_with_orders(); // a copy: an order changes for whom there are others
  for (auto id : hosts)
    if (auto& entry = contacts_.at(id); may_order(entry))
      if (auto experts = rollout_.next_order(id))
        issue_order(id, entry, std::move(*experts));
}

void scheduler_state::settle_if_stuck() {
  if (has_settled_ || !rollout_.is_stuck() || rollout_.awaits_confirmation()
      || !std::all_of(contacts_.begin(), contacts_.end(),
                      [this](const auto& entry) { return may_order(entry.second); }))
    return;
  // Full workers that wait for one another's room: serve everything first, balance gives way.
  rollout_.retarget(target_.settle([this](expert_id expert) { return rollout_.hosts_with(expert); }));
  act_soon();
  has_settled_ = true;
  event("placement-unbalanced", "workers have no room to exchange experts");
}

std::vector<weight_source> scheduler_state::sources_for(worker_id id,
                                                        const std::vector<expert_id>& experts) const {
  if (members_.find(id)->hello.weights == weight_origin::files)
    return {};
  std::map<worker_id, std::vector<expert_id>> by_worker;
  for (auto expert : experts) {
    const auto hosts = rollout_.hosts_with(expert);
    if (std::find(hosts.begin(), hosts.end(), id) != hosts.end())
      continue;
    // Of many hosts neighbours name other ones.
    for (size_t i = 0; i < std::min(hosts.size(), defaults::max_weight_sources); ++i)
      by_worker[hosts[(expert.index + i) % hosts.size()]].push_back(expert);
  }
  std::vector<weight_source> result;
  for (auto& [worker, held] : by_worker)
    if (const auto* member = members_.find(worker))
      result.push_back({member->hello.address, std::move(held)});
  return result;
}

void scheduler_state::issue_order(worker_id id, contact& to, std::vector<expert_id> experts) {
  auto order = to.order = ++last_order_;
  to.in_flight = true;
  auto self = self_;
  auto sources = sources_for(id, experts);
  self_
      ->request(to.member, defaults::host_order_timeout,
                host_order{term_, order, std::move(experts), std::move(sources)})
      .then([self, id,
             order](const host_report& report) { self->state.order_done(id, order, &report, report.error); },
            [self, id, order](const caf::error& error) {
              self->state.order_done(id, order, nullptr, text_of(error));
            });
}

void scheduler_state::order_done(worker_id id, uint64_t order, const host_report* report,
                                 const std::string& error) {
  auto found = contacts_.find(id);
  if (found == contacts_.end() || found->second.order != order || !found->second.in_flight)
    return;
  auto& entry = found->second;
  entry.in_flight = false;
  act_soon();
  if (report != nullptr)
    rollout_.reported(id, report->hosted);
  if (error.empty()) {
    entry.pause = defaults::reconnect_min;
    // It need not wait for the others with what it has yet to load.
    if (auto experts = is_recovering() ? std::nullopt : rollout_.next_order(id))
      issue_order(id, entry, std::move(*experts));
  } else {
    event("host-order-failed", described(members_.find(id)->hello.address) + ": " + error);
    abandon_moves(id, described(members_.find(id)->hello.address) + ": " + error);
    entry.retry_at = now() + entry.pause;
    entry.pause = std::min<std::chrono::milliseconds>(2 * entry.pause, defaults::host_order_retry_max);
  }
  step();
}

} // namespace troupe
