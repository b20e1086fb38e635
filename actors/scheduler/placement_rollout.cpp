#include "actors/scheduler/placement_rollout.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/protocol/defaults.hpp"

namespace troupe {

namespace {

using id_list = std::vector<worker_id>; // ascending

bool contains(const id_list& list, worker_id id) {
  return std::binary_search(list.begin(), list.end(), id);
}

void insert(id_list& list, worker_id id) {
  auto at = std::lower_bound(list.begin(), list.end(), id);
  if (at == list.end() || *at != id)
    list.insert(at, id);
}

void erase(id_list& list, worker_id id) {
  auto at = std::lower_bound(list.begin(), list.end(), id);
  if (at != list.end() && *at == id)
    list.erase(at);
}

id_list difference(const id_list& left, const id_list& right) {
  id_list result;
  std::set_difference(left.begin(), left.end(), right.begin(), right.end(), std::back_inserter(result));
  return result;
}

} // namespace

void placement_rollout::set_layers(std::vector<std::uint32_t> layer_experts) {
  layer_experts_ = std::move(layer_experts);
  first_.clear();
  experts_.clear();
  for (std::uint32_t layer = 0; layer < layer_experts_.size(); ++layer) {
    first_.push_back(static_cast<std::uint32_t>(experts_.size()));
    experts_.resize(experts_.size() + layer_experts_[layer], expert_entry{layer, {}, {}, {}});
  }
  hosts_.clear();
  published_.assign(layer_experts_.size(), nullptr);
  num_unhosted_ = experts_.size();
  unpublished_.clear();
  changed_.clear();
  unrouted_yet_.clear();
  gone_.clear();
  unconfirmed_.clear();
  with_orders_.clear();
  num_stuck_ = 0;
  num_awaiting_ = 0;
}

// ---------------------------------------------------------------------------------------------------------------
// Hosts

void placement_rollout::add_host(worker_id id, std::uint64_t max_experts,
                                 const std::vector<expert_id>& hosted) {
  auto& host = hosts_[id];
  host.max_experts = max_experts;
  host.first_epoch = epoch_;
  for (auto& [expert, held] : host.experts)
    held.unrouted = 0;
  if (auto found = gone_.find(id); found != gone_.end()) {
    for (auto expert : found->second)
      host.experts[expert].routed = true;
    gone_.erase(found);
  }
  if (epoch_ == 0)
    unrouted_yet_.insert(id);
  set_hosted(id, host, hosted);
  changed_.insert(id);
  examine_changed();
}

void placement_rollout::remove_host(worker_id id) {
  auto found = hosts_.find(id);
  if (found == hosts_.end())
    return;
  auto& host = found->second;
  for (const auto& [expert, held] : host.experts) {
    erase(experts_[expert].hosted, id);
    erase(experts_[expert].target, id);
    if (held.routed)
      gone_[id].push_back(expert);
  }
  num_stuck_ -= host.is_stuck ? 1 : 0;
  num_awaiting_ -= host.is_awaiting ? 1 : 0;
  with_orders_.erase(id);
  unconfirmed_.erase(id);
  unrouted_yet_.erase(id);
  const auto held = std::move(host.experts);
  hosts_.erase(found);
  for (const auto& [expert, unused] : held)
    touch(expert);
  changed_.erase(id);
  examine_changed();
}

void placement_rollout::reported(worker_id id, const std::vector<expert_id>& hosted) {
  auto found = hosts_.find(id);
  if (found == hosts_.end())
    return;
  set_hosted(id, found->second, hosted);
  examine_changed();
}

void placement_rollout::set_hosted(worker_id id, host_entry& host, const std::vector<expert_id>& hosted) {
  std::vector<std::uint32_t> now;
  now.reserve(hosted.size());
  for (auto expert : hosted)
    if (is_known(expert))
      now.push_back(flat(expert));
  std::sort(now.begin(), now.end());
  now.erase(std::unique(now.begin(), now.end()), now.end());
  for (auto& [expert, held] : host.experts)
    if (held.hosted && !std::binary_search(now.begin(), now.end(), expert)) {
      held.hosted = false;
      erase(experts_[expert].hosted, id);
      touch(expert);
      changed_.insert(id);
    }
  for (auto expert : now)
    if (auto& held = host.experts[expert]; !std::exchange(held.hosted, true)) {
      insert(experts_[expert].hosted, id);
      touch(expert);
    }
}

void placement_rollout::retarget(const std::vector<expert_target>& targets) {
  for (const auto& [id, hosts] : targets) {
    if (!is_known(id))
      continue;
    const auto expert = flat(id);
    auto& entry = experts_[expert];
    id_list wanted;
    for (auto host : hosts)
      if (hosts_.contains(host))
        insert(wanted, host);
    if (wanted == entry.target)
      continue;
    for (auto host : difference(entry.target, wanted)) {
      hosts_.at(host).experts[expert].target = false;
      changed_.insert(host);
    }
    for (auto host : difference(wanted, entry.target))
      hosts_.at(host).experts[expert].target = true;
    entry.target = std::move(wanted);
    touch(expert);
  }
  examine_changed();
}

const std::vector<worker_id>& placement_rollout::routing_of(const expert_entry& expert) const {
  const auto is_settled = !expert.target.empty()
                          && std::includes(expert.hosted.begin(), expert.hosted.end(), expert.target.begin(),
                                           expert.target.end());
  return is_settled ? expert.target : expert.hosted;
}

void placement_rollout::touch(std::uint32_t expert) {
  const auto& entry = experts_[expert];
  if (routing_of(entry) == entry.routed)
    unpublished_.erase(expert);
  else
    unpublished_.insert(expert);
  changed_.insert(entry.hosted.begin(), entry.hosted.end());
  changed_.insert(entry.target.begin(), entry.target.end());
}

// ---------------------------------------------------------------------------------------------------------------
// Routers

void placement_rollout::add_router(worker_id id) {
  confirmed_[id] = 0;
  confirmations_changed();
}

void placement_rollout::remove_router(worker_id id) {
  confirmed_.erase(id);
  confirmations_changed();
}

bool placement_rollout::confirmed(worker_id id, std::uint64_t epoch) {
  auto found = confirmed_.find(id);
  if (found == confirmed_.end() || found->second >= epoch)
    return false;
  found->second = epoch;
  confirmations_changed();
  return true;
}

void placement_rollout::restart_epochs() {
  epoch_ = 0;
  for (auto& [id, epoch] : confirmed_)
    epoch = 0;
  for (auto& [id, host] : hosts_) {
    host.first_epoch = 0;
    for (auto& [expert, held] : host.experts)
      held.unrouted = 0;
    unrouted_yet_.insert(id);
    changed_.insert(id);
  }
  confirmations_changed();
  examine_changed();
}

void placement_rollout::confirmations_changed() {
  auto least = UINT64_MAX;
  for (const auto& [id, epoch] : confirmed_)
    least = std::min(least, epoch);
  if (std::exchange(min_confirmed_, least) == least)
    return;
  changed_.insert(unconfirmed_.begin(), unconfirmed_.end());
  changed_.insert(with_orders_.begin(), with_orders_.end()); // may no longer release
  examine_changed();
}

// ---------------------------------------------------------------------------------------------------------------
// Publication

placement_rollout::publication placement_rollout::route(std::uint64_t term, std::uint64_t epoch) {
  const auto version = (term << 32U) + epoch;
  epoch_ = epoch;
  std::set<std::uint32_t> layers;
  for (std::uint32_t layer = 0; layer < published_.size(); ++layer)
    if (published_[layer] == nullptr)
      layers.insert(layer);
  for (auto id : std::exchange(unrouted_yet_, {})) {
    hosts_.at(id).first_epoch = epoch;
    changed_.insert(id);
  }
  for (auto expert : std::exchange(unpublished_, {})) {
    auto& entry = experts_[expert];
    const auto& hosts = routing_of(entry);
    for (auto id : difference(entry.routed, hosts))
      if (auto found = hosts_.find(id); found != hosts_.end()) {
        auto& held = found->second.experts[expert];
        held.routed = false;
        held.unrouted = epoch;
        changed_.insert(id);
      }
    for (auto id : difference(hosts, entry.routed))
      hosts_.at(id).experts[expert].routed = true;
    num_unhosted_ += hosts.empty() ? 1 : 0;
    num_unhosted_ -= entry.routed.empty() ? 1 : 0;
    entry.routed = hosts;
    layers.insert(entry.layer);
    changed_.insert(hosts.begin(), hosts.end());
  }
  gone_.clear();
  for (auto layer : layers) {
    auto next = std::make_shared<layer_placement>();
    next->version = version;
    next->experts.reserve(layer_experts_[layer]);
    for (std::uint32_t index = 0; index < layer_experts_[layer]; ++index)
      next->experts.push_back({experts_[first_[layer] + index].routed});
    published_[layer] = std::move(next);
  }
  examine_changed();
  return {{term, epoch, published_}, {layers.begin(), layers.end()}};
}

// ---------------------------------------------------------------------------------------------------------------
// Orders

std::uint64_t placement_rollout::unrouted_since(const host_entry& host, const holding& expert) {
  if (expert.routed)
    return 0;
  return expert.unrouted != 0 ? expert.unrouted : host.first_epoch;
}

bool placement_rollout::is_releasable(worker_id id, const host_entry& host, std::uint32_t expert,
                                      const holding& held) const {
  const auto since = unrouted_since(host, held);
  // The last condition keeps what the host should hold, and what the next routing is about to send here
  // again.
  return held.hosted && since != 0 && since <= min_confirmed_ && !contains(routing_of(experts_[expert]), id);
}

void placement_rollout::examine_changed() {
  for (auto id : std::exchange(changed_, {}))
    if (auto found = hosts_.find(id); found != hosts_.end())
      examine(id, found->second);
}

void placement_rollout::examine(worker_id id, host_entry& host) {
  std::uint64_t num_releasable = 0;
  std::uint64_t num_hosted = 0;
  bool is_missing = false;
  bool is_unconfirmed = false;
  bool is_awaiting = false;
  for (auto at = host.experts.begin(); at != host.experts.end();) {
    const auto& held = at->second;
    const auto since = unrouted_since(host, held);
    const auto is_known_to_all = since <= min_confirmed_; // also when it is routed
    is_unconfirmed = is_unconfirmed || !is_known_to_all;
    if (held.hosted) {
      ++num_hosted;
      const auto releases = is_releasable(id, host, at->first, held);
      num_releasable += releases ? 1 : 0;
      is_awaiting = is_awaiting || (since != 0 && !releases);
    } else if (held.target) {
      is_missing = true;
    } else if (!held.routed && is_known_to_all) {
      at = host.experts.erase(at); // over and done
      continue;
    }
    ++at;
  }
  host.is_missing = is_missing;
  host.num_keeping = num_hosted - num_releasable;
  const auto has_room = host.num_keeping < host.max_experts;
  host.has_order = num_releasable > 0 || (is_missing && has_room);
  if (host.has_order)
    with_orders_.insert(id);
  else
    with_orders_.erase(id);
  if (is_unconfirmed)
    unconfirmed_.insert(id);
  else
    unconfirmed_.erase(id);
  num_stuck_ -= std::exchange(host.is_stuck, is_missing && !has_room) ? 1 : 0;
  num_stuck_ += host.is_stuck ? 1 : 0;
  num_awaiting_ -= std::exchange(host.is_awaiting, is_awaiting) ? 1 : 0;
  num_awaiting_ += host.is_awaiting ? 1 : 0;
}

std::optional<std::vector<expert_id>> placement_rollout::next_order(worker_id id) {
  if (!with_orders_.contains(id))
    return std::nullopt;
  auto& host = hosts_.at(id);
  std::vector<std::pair<std::size_t, std::uint32_t>> missing; // hosts that the expert has, expert
  std::vector<std::uint32_t> wanted;
  std::vector<std::uint32_t> released;
  for (const auto& [expert, held] : host.experts)
    if (is_releasable(id, host, expert, held))
      released.push_back(expert);
    else if (held.hosted)
      wanted.push_back(expert);
    else if (held.target)
      missing.emplace_back(experts_[expert].routed.size(), expert);
  std::sort(missing.begin(), missing.end());
  const auto room = host.max_experts - std::min<std::uint64_t>(host.max_experts, wanted.size());
  missing.resize(std::min<std::uint64_t>({missing.size(), room, defaults::max_experts_per_order}));
  for (const auto& [num_hosts, expert] : missing)
    wanted.push_back(expert);
  std::sort(wanted.begin(), wanted.end());
  std::vector<expert_id> order;
  order.reserve(wanted.size());
  for (auto expert : wanted)
    order.push_back(id_of(expert));
  for (auto expert : released) {
    host.experts[expert].hosted = false;
    erase(experts_[expert].hosted, id);
    touch(expert);
  }
  changed_.insert(id);
  examine_changed();
  return order;
}

bool placement_rollout::has_all(worker_id id) const {
  const auto found = hosts_.find(id);
  return found != hosts_.end() && !found->second.is_missing;
}

bool placement_rollout::is_free(worker_id id) const {
  auto found = hosts_.find(id);
  return found == hosts_.end() || found->second.num_keeping == 0;
}

// ---------------------------------------------------------------------------------------------------------------
// What is

bool placement_rollout::is_carried_out(expert_id id) const {
  if (!is_known(id))
    return false;
  const auto& expert = experts_[flat(id)];
  return !expert.target.empty() && expert.hosted == expert.target && expert.routed == expert.target;
}

std::vector<expert_id> placement_rollout::hosted(worker_id id) const {
  std::vector<expert_id> result;
  if (auto found = hosts_.find(id); found != hosts_.end())
    for (const auto& [expert, held] : found->second.experts)
      if (held.hosted)
        result.push_back(id_of(expert));
  return result;
}

std::span<const worker_id> placement_rollout::hosts_with(expert_id expert) const {
  return is_known(expert) ? std::span<const worker_id>{experts_[flat(expert)].hosted}
                          : std::span<const worker_id>{};
}

} // namespace troupe
