// scheduler_state: what a planner asks for. Moves of single experts, each answered when everybody knows of
// it, and workers that shall hold nothing.
#include <algorithm>
#include <memory>
#include <utility>

#include "actors/scheduler/scheduler_state.hpp"
#include "actors/timeline/timeline.hpp"

namespace troupe {

fleet_ptr scheduler_state::describe_fleet() {
  auto result = std::make_shared<fleet>();
  result->num_replicas = config_.num_replicas;
  result->small_cluster = placement_workload{}.small_cluster;
  for (const auto& [id, member] : members_.all()) {
    const auto& hello = member.hello;
    if (hello.address.role != worker_role::expert)
      continue;
    result->expert_bytes = std::max(result->expert_bytes, hello.expert_bytes);
    result->hosts.push_back({id, hello.address.name, max_experts_of(hello), member.load.work,
                             departures_.contains(id) || drained_.contains(hello.address.name)});
  }
  if (!has_target_ || is_recovering())
    return result; // nobody should plan yet: no layers
  result->layer_experts = layer_experts_;
  result->is_settled = !target_.wants_repair() && moves_.empty();
  for (uint32_t layer = 0; layer < layer_experts_.size(); ++layer) {
    auto& experts = result->target.emplace_back();
    for (uint32_t index = 0; index < layer_experts_[layer]; ++index) {
      experts.push_back(target_.hosts({layer, index}));
      result->is_settled = result->is_settled && rollout_.is_carried_out({layer, index});
    }
  }
  return result;
}

caf::result<void> scheduler_state::move_expert(const expert_move& move) {
  const auto expert = move.to.expert;
  if (!has_target_ || is_recovering() || is_doubtful())
    return make_error(ec::not_ready, "the scheduler has no placement yet");
  if (moves_.contains(expert))
    return make_error(ec::cancelled, "the expert is on its way already");
  if (target_.hosts(expert) != move.from)
    return make_error(ec::cancelled, "the expert has other hosts by now");
  for (auto id : move.to.hosts)
    if (const auto* member = members_.find(id);
        member == nullptr || departures_.contains(id) || drained_.contains(member->hello.address.name))
      return make_error(ec::cancelled, "a worker that was to hold the expert is gone, or takes nothing");
  if (move.to.hosts.empty())
    return make_error(ec::bad_request, "an expert needs a host");
  target_.set_hosts(expert, move.to.hosts);
  auto promise = self_->make_response_promise<caf::unit_t>();
  moves_[expert] = {promise, move.to.hosts, move.from, timeline::is_on() ? timeline::now_ns() : 0};
  act_soon();
  return promise;
}

void scheduler_state::finish_moves() {
  if (moves_.empty() || target_.wants_repair())
    return;
  for (auto at = moves_.begin(); at != moves_.end();) {
    auto& [expert, move] = *at;
    if (target_.hosts(expert) != move.to) {
      trace_move(expert, move, false);
      move.promise.deliver(make_error(ec::cancelled, "a host was lost, or has no room"));
      at = moves_.erase(at);
    } else if (rollout_.is_carried_out(expert)) {
      trace_move(expert, move, true);
      move.promise.deliver(caf::unit);
      at = moves_.erase(at);
    } else {
      ++at;
    }
  }
}

void scheduler_state::trace_move(expert_id expert, const pending_move& move, bool is_done) const {
  if (move.begin_ns == 0)
    return;
  const auto names = [this](const std::vector<worker_id>& hosts) {
    std::string text;
    for (const auto id : hosts) {
      const auto* member = members_.find(id);
      text +=
          (text.empty() ? "" : ", ") + (member == nullptr ? "one that is gone" : member->hello.address.name);
    }
    return text;
  };
  timeline::event moved{.kind = timeline::event_kind::expert_move, .begin_ns = move.begin_ns};
  moved.id = timeline::packed(expert.layer, expert.index);
  moved.duration_ns = timeline::now_ns() - move.begin_ns;
  moved.args = {move.from.size(), move.to.size(), is_done ? 1U : 0U};
  timeline::record(moved, "from " + names(move.from) + " to " + names(move.to));
}

void scheduler_state::abandon_moves(worker_id host, const std::string& why) {
  for (auto at = moves_.begin(); at != moves_.end();) {
    auto& [expert, move] = *at;
    const auto has_it = rollout_.hosts_with(expert);
    if (std::find(move.to.begin(), move.to.end(), host) == move.to.end()
        || std::find(has_it.begin(), has_it.end(), host) != has_it.end()) {
      ++at;
      continue;
    }
    target_.set_hosts(expert, move.from);
    trace_move(expert, move, false);
    move.promise.deliver(make_error(ec::engine_failed, why));
    at = moves_.erase(at);
  }
}

void scheduler_state::set_drained(std::set<std::string> names) {
  if (names == drained_)
    return;
  const auto before = std::exchange(drained_, std::move(names));
  for (const auto& [id, member] : members_.all()) {
    const auto& hello = member.hello;
    if (hello.address.role != worker_role::expert || departures_.contains(id))
      continue;
    const auto is_drained = drained_.contains(hello.address.name);
    if (is_drained == before.contains(hello.address.name))
      continue;
    if (is_drained)
      target_.remove_host(id); // the rollout keeps what it has until others have it
    else if (!layer_experts_.empty())
      target_.add_host(id, max_experts_of(hello));
    event(is_drained ? "worker-drained" : "worker-undrained",
          described(hello.address) + (is_drained ? " is to hold nothing" : " may hold experts again"));
  }
  act_soon();
}

} // namespace troupe
