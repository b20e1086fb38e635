#include "actors/scheduler/expert_desk.hpp"

#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <variant>

namespace troupe {

namespace {

/// Experts that a host can hold; UINT64_MAX: any number.
std::uint64_t max_experts_of(const expert_terms& host) {
  if (host.memory_bytes == 0 || host.expert_bytes == 0)
    return std::numeric_limits<std::uint64_t>::max();
  return host.memory_bytes / host.expert_bytes;
}

} // namespace

expert_desk::expert_desk(std::uint32_t num_replicas, std::uint32_t min_hosts)
    : num_replicas_(num_replicas), min_hosts_(min_hosts), target_({num_replicas, {}}) {}

loaded_lookup expert_desk::loaded() const {
  return [this](expert_id expert) { return rollout_.hosts_with(expert); };
}

void expert_desk::adopt_model(const std::vector<std::uint32_t>& layer_experts, const member_table& members) {
  if (layer_experts_ == layer_experts)
    return;
  layer_experts_ = layer_experts;
  target_.set_layers(layer_experts_);
  rollout_.set_layers(layer_experts_);
  if (activity_)
    target_.set_activity(activity_->rows);
  for (const auto& [id, member] : members.all())
    if (const auto* host = std::get_if<expert_terms>(&member.hello.of_role))
      add_host(member.hello.address, *host);
}

void expert_desk::add_host(const worker_address& address, const expert_terms& host) {
  rollout_.add_host(address.id, max_experts_of(host), host.hosted);
  if (takes_nothing(address.id, address.name))
    return;
  target_.add_host(address.id, max_experts_of(host), host.topology);
  // A host that comes late brings what others were ordered to load meanwhile.
  target_.take_back(address.id, host.hosted, loaded());
}

void expert_desk::joined(const worker_hello& hello, const std::vector<std::uint32_t>& layer_experts,
                         const member_table& members) {
  const auto id = hello.address.id;
  const auto* host = std::get_if<expert_terms>(&hello.of_role);
  if (host != nullptr && hello.term > 0 && !host->hosted.empty()) // what is loaded has been placed
    has_target_ = true;
  retired_.erase(id);
  adopt_model(layer_experts, members);
  if (hello.address.role == worker_role::attention)
    rollout_.add_router(id);
  if (host == nullptr)
    return;
  if (!layer_experts_.empty())
    add_host(hello.address, *host);
  unready_.insert(id);
}

void expert_desk::retire(worker_id id) {
  target_.remove_host(id);
  unready_.erase(id);
  retired_.insert(id);
}

void expert_desk::removed(worker_id id) {
  target_.remove_host(id);
  rollout_.remove_host(id);
  rollout_.remove_router(id);
  unready_.erase(id);
  retired_.erase(id);
  changed();
}

std::optional<std::vector<operator_event>> expert_desk::set_drained(std::set<std::string> names,
                                                                    const member_table& members) {
  if (names == drained_)
    return std::nullopt;
  const auto before = std::exchange(drained_, std::move(names));
  std::vector<operator_event> events;
  for (const auto& [id, member] : members.all()) {
    const auto& address = member.hello.address;
    const auto* host = std::get_if<expert_terms>(&member.hello.of_role);
    if (host == nullptr || retired_.contains(id))
      continue;
    const auto is_drained = drained_.contains(address.name);
    if (is_drained == before.contains(address.name))
      continue;
    if (is_drained)
      target_.remove_host(id); // the rollout keeps what it has until others have it
    else if (!layer_experts_.empty())
      target_.add_host(id, max_experts_of(*host), host->topology);
    events.push_back({is_drained ? "worker-drained" : "worker-undrained",
                      described(address) + (is_drained ? " is to hold nothing" : " may hold experts again")});
  }
  return events;
}

void expert_desk::set_activity(expert_activity_ptr rows) {
  activity_ = std::move(rows);
  target_.set_activity(activity_->rows);
}

void expert_desk::repair(const member_table& members) {
  has_target_ = has_target_ || members.count(worker_role::expert) >= min_hosts_;
  if (!has_target_)
    return;
  if (target_.wants_repair())
    rollout_.retarget(target_.repair(loaded()));
  if (rescue_.update(members, rollout_, target_))
    rollout_.retarget(target_.repair(loaded()));
}

std::optional<expert_desk::room_change> expert_desk::check_room() {
  const auto num_hosts = target_.num_hosts();
  const auto is_placing = has_target_ && num_hosts > 0; // else experts lack more than room
  const auto before = std::exchange(num_without_room_, is_placing ? target_.num_unplaced() : 0);
  if (num_without_room_ == before)
    return std::nullopt;
  room_change result{num_without_room_, {}};
  if (num_without_room_ > 0 && before == 0)
    result.event = {"experts-without-room",
                    std::to_string(num_hosts)
                        + (num_hosts == 1 ? " expert worker has room for " : " expert workers have room for ")
                        + std::to_string(target_.num_experts() - num_without_room_) + " of "
                        + std::to_string(target_.num_experts())
                        + " experts, and requests wait for the others: start another expert worker, or give "
                          "these more memory (--expert-memory, or the memory limit of their cgroup)"};
  else if (num_without_room_ == 0)
    result.event = {"experts-have-room", is_placing ? "every expert has a worker with room for it again"
                                                    : "there are no expert workers"};
  return result;
}

std::optional<operator_event> expert_desk::settle(bool are_hosts_idle) {
  if (has_settled_ || !rollout_.is_stuck() || rollout_.awaits_confirmation() || !are_hosts_idle)
    return std::nullopt;
  rollout_.retarget(target_.settle(loaded()));
  has_settled_ = true;
  return operator_event{"placement-unbalanced", "workers have no room to exchange experts"};
}

std::vector<worker_id> expert_desk::take_ready() {
  std::vector<worker_id> ready;
  if (!has_target_) // what the first placement will give them is not known
    return ready;
  std::erase_if(unready_, [&](worker_id id) {
    if (!rollout_.has_all(id))
      return false;
    ready.push_back(id);
    return true;
  });
  return ready;
}

fleet_ptr expert_desk::describe(const member_table& members, bool is_recovering, bool has_moves) const {
  auto result = std::make_shared<fleet>();
  result->num_replicas = num_replicas_;
  result->small_cluster = placement_workload{}.small_cluster;
  for (const auto& [id, member] : members.all()) {
    const auto& name = member.hello.address.name;
    const auto* host = std::get_if<expert_terms>(&member.hello.of_role);
    if (host == nullptr)
      continue;
    const auto* load = std::get_if<expert_load>(&member.load.of_role);
    result->expert_bytes = std::max(result->expert_bytes, host->expert_bytes);
    result->hosts.push_back({id, name, max_experts_of(*host), load == nullptr ? expert_work{} : load->work,
                             takes_nothing(id, name), host->topology});
  }
  if (!has_target_ || is_recovering)
    return result;
  result->layer_experts = layer_experts_;
  result->is_settled = !target_.wants_repair() && !has_moves;
  for (std::uint32_t layer = 0; layer < layer_experts_.size(); ++layer) {
    auto& experts = result->target.emplace_back();
    for (std::uint32_t index = 0; index < layer_experts_[layer]; ++index) {
      experts.push_back(target_.hosts({layer, index}));
      result->is_settled = result->is_settled && rollout_.is_carried_out({layer, index});
    }
  }
  return result;
}

} // namespace troupe
