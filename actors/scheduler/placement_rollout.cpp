#include "actors/scheduler/placement_rollout.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "actors/defaults.hpp"

namespace troupe {

void placement_rollout::set_layers(std::vector<uint32_t> layer_experts) {
  layer_experts_ = std::move(layer_experts);
  first_.assign(1, 0);
  for (auto experts : layer_experts_)
    first_.push_back(first_.back() + experts);
  hosts_.clear();
  routed_.assign(first_.back(), {});
  versions_.assign(layer_experts_.size(), 0);
}

expert_id placement_rollout::unflat(size_t expert) const {
  auto next = std::upper_bound(first_.begin(), first_.end(), expert);
  auto layer = static_cast<size_t>(next - first_.begin()) - 1;
  return {static_cast<uint32_t>(layer), static_cast<uint32_t>(expert - first_[layer])};
}

bool placement_rollout::is_known(expert_id id) const {
  return id.layer < layer_experts_.size() && id.index < layer_experts_[id.layer];
}

void placement_rollout::add_host(worker_id id, uint64_t max_experts, const std::vector<expert_id>& hosted) {
  auto& host = hosts_[id];
  host.max_experts = max_experts;
  host.retired = false;
  host.target.assign(routed_.size(), false);
  host.unrouted.assign(routed_.size(), 0);
  reported(id, hosted);
}

void placement_rollout::remove_host(worker_id id) {
  hosts_.erase(id);
}

void placement_rollout::retire_host(worker_id id) {
  if (auto found = hosts_.find(id); found != hosts_.end())
    found->second.retired = true;
}

void placement_rollout::reported(worker_id id, const std::vector<expert_id>& hosted) {
  auto found = hosts_.find(id);
  if (found == hosts_.end())
    return;
  auto& flags = found->second.hosted;
  flags.assign(routed_.size(), false);
  for (auto expert : hosted)
    if (is_known(expert))
      flags[flat(expert)] = true;
}

bool placement_rollout::confirmed(worker_id id, uint64_t epoch) {
  auto found = confirmed_.find(id);
  if (found == confirmed_.end() || found->second >= epoch)
    return false;
  found->second = epoch;
  return true;
}

void placement_rollout::restart_epochs() {
  for (auto& [id, epoch] : confirmed_)
    epoch = 0;
  for (auto& [id, host] : hosts_)
    std::fill(host.unrouted.begin(), host.unrouted.end(), 0);
}

void placement_rollout::retarget(uint32_t num_replicas, bool rebalance) {
  placement_problem problem{layer_experts_, {}, num_replicas, rebalance};
  expert_placement planned(layer_experts_.size());
  for (size_t layer = 0; layer < planned.size(); ++layer)
    planned[layer].resize(layer_experts_[layer]);
  auto loaded = planned;
  for (const auto& [id, host] : hosts_) {
    if (host.retired)
      continue;
    problem.workers.push_back({id, host.max_experts});
    for (size_t expert = 0; expert < routed_.size(); ++expert) {
      auto at = unflat(expert);
      if (host.hosted[expert])
        loaded[at.layer][at.index].push_back(id);
      if (host.target[expert] && rebalance)
        planned[at.layer][at.index].push_back(id);
    }
  }
  auto solution = place_experts(problem, planned, loaded);
  for (auto& [id, host] : hosts_)
    std::fill(host.target.begin(), host.target.end(), false);
  for (size_t expert = 0; expert < routed_.size(); ++expert) {
    auto at = unflat(expert);
    for (auto id : solution[at.layer][at.index])
      hosts_.at(id).target[expert] = true;
  }
}

std::vector<worker_id> placement_rollout::routing_of(size_t expert) const {
  std::vector<worker_id> all;
  std::vector<worker_id> targets;
  bool is_settled = true;
  for (const auto& [id, host] : hosts_) {
    if (host.hosted[expert])
      all.push_back(id);
    if (host.target[expert])
      targets.push_back(id);
    is_settled = is_settled && (!host.target[expert] || host.hosted[expert]);
  }
  return is_settled && !targets.empty() ? targets : all;
}

bool placement_rollout::wants_route() const {
  for (size_t expert = 0; expert < routed_.size(); ++expert)
    if (routing_of(expert) != routed_[expert])
      return true;
  return false;
}

placement placement_rollout::route(uint64_t term, uint64_t epoch) {
  placement result{term, epoch, {}};
  for (size_t layer = 0; layer < layer_experts_.size(); ++layer) {
    auto changed = versions_[layer] == 0;
    auto& published = result.layers.emplace_back();
    for (auto expert = first_[layer]; expert < first_[layer + 1]; ++expert) {
      auto hosts = routing_of(expert);
      changed = changed || hosts != routed_[expert];
      for (auto& [id, host] : hosts_) {
        auto is_routed = std::binary_search(hosts.begin(), hosts.end(), id);
        if (is_routed)
          host.unrouted[expert] = 0;
        else if (host.unrouted[expert] == 0)
          host.unrouted[expert] = epoch;
      }
      published.experts.push_back({hosts});
      routed_[expert] = std::move(hosts);
    }
    if (changed)
      versions_[layer] = (term << 32U) + epoch;
    published.version = versions_[layer];
  }
  return result;
}

bool placement_rollout::is_complete() const {
  return !layer_experts_.empty()
         && std::none_of(routed_.begin(), routed_.end(), [](const auto& hosts) { return hosts.empty(); });
}

bool placement_rollout::is_releasable(const host_entry& host, size_t expert) const {
  auto epoch = host.unrouted[expert];
  return epoch != 0 && !host.target[expert]
         && std::all_of(confirmed_.begin(), confirmed_.end(),
                        [epoch](const auto& entry) { return entry.second >= epoch; });
}

uint64_t placement_rollout::num_keeping(const host_entry& host) const {
  uint64_t result = 0;
  for (size_t expert = 0; expert < routed_.size(); ++expert)
    result += host.hosted[expert] && !is_releasable(host, expert) ? 1 : 0;
  return result;
}

std::optional<std::vector<expert_id>> placement_rollout::next_order(worker_id id) {
  auto found = hosts_.find(id);
  if (found == hosts_.end())
    return std::nullopt;
  auto& host = found->second;
  std::vector<std::pair<size_t, size_t>> missing; // hosts that the expert has, expert
  std::vector<size_t> wanted;
  bool changes = false;
  for (size_t expert = 0; expert < routed_.size(); ++expert) {
    if (host.hosted[expert] && is_releasable(host, expert)) {
      host.hosted[expert] = false;
      changes = true;
    } else if (host.hosted[expert]) {
      wanted.push_back(expert);
    } else if (host.target[expert]) {
      missing.emplace_back(routed_[expert].size(), expert);
    }
  }
  std::sort(missing.begin(), missing.end());
  auto room = host.max_experts - std::min<uint64_t>(host.max_experts, wanted.size());
  if (missing.size() > std::min<uint64_t>(room, defaults::max_experts_per_order))
    missing.resize(std::min<uint64_t>(room, defaults::max_experts_per_order));
  for (const auto& [num_hosts, expert] : missing)
    wanted.push_back(expert);
  if (!changes && missing.empty())
    return std::nullopt;
  std::sort(wanted.begin(), wanted.end());
  std::vector<expert_id> order;
  order.reserve(wanted.size());
  for (auto expert : wanted)
    order.push_back(unflat(expert));
  return order;
}

bool placement_rollout::is_stuck() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [this](const auto& entry) {
    const auto& host = entry.second;
    for (size_t expert = 0; expert < routed_.size(); ++expert)
      if (host.target[expert] && !host.hosted[expert])
        return num_keeping(host) >= host.max_experts;
    return false;
  });
}

bool placement_rollout::awaits_confirmation() const {
  return std::any_of(hosts_.begin(), hosts_.end(), [this](const auto& entry) {
    const auto& host = entry.second;
    for (size_t expert = 0; expert < routed_.size(); ++expert)
      if (host.hosted[expert] && host.unrouted[expert] != 0 && !is_releasable(host, expert))
        return true;
    return false;
  });
}

bool placement_rollout::is_free(worker_id id) const {
  auto found = hosts_.find(id);
  return found == hosts_.end() || num_keeping(found->second) == 0;
}

std::vector<expert_id> placement_rollout::hosted(worker_id id) const {
  std::vector<expert_id> result;
  if (auto found = hosts_.find(id); found != hosts_.end())
    for (size_t expert = 0; expert < routed_.size(); ++expert)
      if (found->second.hosted[expert])
        result.push_back(unflat(expert));
  return result;
}

} // namespace troupe
