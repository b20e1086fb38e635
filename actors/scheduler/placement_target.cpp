#include "actors/scheduler/placement_target.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace troupe {

placement_target::placement_target(settings chosen) : settings_(chosen) {
  settings_.num_replicas = std::max(settings_.num_replicas, 1U);
}

void placement_target::set_layers(std::vector<std::uint32_t> layer_experts) {
  known_spreads_.clear();
  spreads_.assign(layer_experts.size(), {});
  table_ = hosting_table{std::move(layer_experts)};
  wishes_.assign(table_.num_experts(), 0);
  activity_.clear();
  missing_.clear();
  for (std::uint32_t expert = 0; expert < table_.num_experts(); ++expert)
    missing_.insert(missing_.end(), expert);
  overfull_.clear();
  num_joined_ = 0;
  num_disturbed_ = table_.num_experts();
  wants_repair_ = true;
}

void placement_target::add_host(worker_id id, std::uint64_t max_experts, const std::string& topology) {
  num_joined_ += table_.find(id) == nullptr ? 1 : 0;
  if (table_.add_host(id, max_experts, topology).total > max_experts)
    overfull_.insert(id);
  wants_repair_ = true;
}

void placement_target::take_back(worker_id id, const std::vector<expert_id>& held,
                                 const loaded_lookup& loaded) {
  auto* to = table_.find(id);
  if (to == nullptr)
    return;
  for (auto at : held) {
    if (!table_.is_known(at) || !to->has_room())
      continue;
    const auto expert = table_.flat(at);
    const auto& hosts = table_.hosts_of(expert);
    const auto has_it = loaded(at);
    const auto from = std::find_if(hosts.begin(), hosts.end(), [&has_it](const host* other) {
      return !std::binary_search(has_it.begin(), has_it.end(), other->id);
    });
    if (from != hosts.end() && !table_.is_pinned(expert) && !table_.holds(*to, expert)
        && table_.is_apart(expert, *to, *from))
      table_.move(expert, **from, *to);
  }
}

void placement_target::remove_host(worker_id id) {
  if (table_.find(id) == nullptr)
    return;
  for (auto expert : table_.remove_host(id))
    lost(expert);
  wants_repair_ = true;
}

void placement_target::lost(std::uint32_t expert) {
  ++num_disturbed_;
  if (table_.hosts_of(expert).size() < wanted(expert))
    missing_.insert(expert);
}

void placement_target::set_hosts(expert_id id, const std::vector<worker_id>& hosts) {
  if (!table_.is_known(id))
    return;
  const auto expert = table_.flat(id);
  const std::set<worker_id> distinct{hosts.begin(), hosts.end()};
  wishes_[expert] = static_cast<std::uint32_t>(distinct.size());
  table_.pin(expert, !distinct.empty());
  auto current = table_.hosts_of(expert);
  if (distinct.empty()) {
    // Free again: the hosts with most experts give up the surplus.
    std::stable_sort(current.begin(), current.end(),
                     [](const host* l, const host* r) { return l->total > r->total; });
    current.resize(current.size() - std::min<std::size_t>(current.size(), wanted(expert)));
  } else {
    std::erase_if(current, [&](const host* at) { return distinct.contains(at->id); });
  }
  for (auto* from : current)
    table_.remove(expert, *from);
  for (auto to : distinct)
    if (auto* found = table_.find(to); found != nullptr && !table_.holds(*found, expert)) {
      table_.add(expert, *found);
      if (found->total > found->max_experts)
        overfull_.insert(to);
    }
  missing_.erase(expert);
  if (table_.hosts_of(expert).size() < wanted(expert))
    lost(expert); // else nothing is disturbed: a planner's moves are no reason to balance other experts
  wants_repair_ = true;
}

void placement_target::set_activity(const std::vector<std::vector<std::uint64_t>>& rows) {
  if (rows.size() != table_.num_layers())
    return;
  std::vector<std::uint64_t> activity;
  for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer) {
    if (rows[layer].size() != table_.num_experts(layer))
      return;
    activity.insert(activity.end(), rows[layer].begin(), rows[layer].end());
  }
  activity_ = std::move(activity);
}

std::vector<expert_target> placement_target::repair(loaded_lookup loaded) {
  loaded_ = std::move(loaded);
  evict_from_full();
  choose_spreads();
  balance();
  return take_changes();
}

std::vector<expert_target> placement_target::settle(loaded_lookup loaded) {
  loaded_ = std::move(loaded);
  std::vector<std::vector<worker_id>> kept(table_.num_experts());
  for (std::uint32_t expert = 0; expert < table_.num_experts(); ++expert) {
    const auto id = table_.id_of(expert);
    const auto targets = table_.hosts_of(expert);
    for (auto* at : targets) {
      if (is_loaded(loaded_, id, at->id))
        kept[expert].push_back(at->id);
      table_.remove(expert, *at);
    }
    if (loaded_)
      for (auto at : loaded_(id))
        if (std::find(kept[expert].begin(), kept[expert].end(), at) == kept[expert].end())
          kept[expert].push_back(at); // the hosts of the target come first
  }
  const auto num_disturbed = num_disturbed_; // settling is no reason to move anything later
  missing_.clear();
  for (std::uint32_t expert = 0; expert < table_.num_experts(); ++expert) {
    for (auto id : kept[expert])
      if (auto* at = table_.find(id);
          at != nullptr && at->has_room() && table_.hosts_of(expert).size() < wanted(expert))
        table_.add(expert, *at);
    lost(expert);
  }
  num_disturbed_ = num_disturbed;
  choose_spreads();
  place_missing();
  return take_changes();
}

void placement_target::evict_from_full() {
  for (auto id : std::exchange(overfull_, {})) {
    auto* full = table_.find(id);
    if (full == nullptr)
      continue;
    for (auto only_free : {true, false}) {
      const std::vector<std::uint32_t> held{full->experts.rbegin(), full->experts.rend()};
      for (auto expert : held) {
        if (full->total <= full->max_experts)
          break;
        if (only_free && table_.is_pinned(expert))
          continue;
        table_.remove(expert, *full);
        lost(expert);
      }
    }
  }
}

void placement_target::balance() {
  if (num_disturbed_ == 0
      && num_joined_ == 0) { // only a planner has changed the target: balance would undo that
    place_missing();
    return;
  }
  // N changes may cost N times what one does.
  const auto num_wanted = std::uint64_t{table_.num_experts()} * settings_.num_replicas;
  std::uint64_t budget = num_disturbed_;
  if (table_.num_hosts() > 0)
    budget += num_joined_ * (num_wanted / table_.num_hosts() + 1);
  std::uint64_t largest_share = 0;
  for (std::uint32_t layer = 0; layer < table_.num_layers() && budget > 0; ++layer)
    if (spreads_[layer].low > 0)
      largest_share =
          std::max<std::uint64_t>(largest_share, table_.num_placed(layer) / spreads_[layer].low + 1);
  num_disturbed_ = 0;
  num_joined_ = 0;
  // Balance can make room for replicas that were missing because hosts were full.
  for (std::size_t before = missing_.size() + 1; missing_.size() < before;) {
    before = missing_.size();
    place_missing();
    separate();
    balance_placement(table_, spreads_, loaded_, std::exchange(budget, 0) + std::exchange(largest_share, 0));
  }
}

void placement_target::choose_spreads() {
  const auto num_hosts = static_cast<std::uint32_t>(table_.num_hosts());
  std::uint64_t memory = 0;
  for (const auto& [id, at] : table_.all_hosts())
    memory += std::min<std::uint64_t>(at.max_experts, table_.num_experts());
  const auto mean = num_hosts == 0 ? 0 : memory / num_hosts;
  for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer) {
    const auto num_experts = table_.num_experts(layer) * std::min(settings_.num_replicas, num_hosts);
    // More hosts, or more memory, than a layer can use make no difference.
    const auto usable_hosts =
        std::min(num_hosts, std::max(num_experts, settings_.workload.small_cluster + 1));
    const auto usable_memory = std::min<std::uint64_t>(mean, num_experts);
    auto [found, is_new] = known_spreads_.try_emplace(std::tuple{num_experts, usable_hosts, usable_memory});
    if (is_new) {
      found->second = choose_spread(settings_.workload, num_experts, usable_hosts, usable_memory);
      // An expert that has room where it is need not move because the hosts' mean memory became a little
      // less.
      found->second.low =
          std::min(found->second.low, choose_spread(settings_.workload, num_experts, usable_hosts).low);
    }
    spreads_[layer] = found->second;
  }
  align_spreads();
}

void placement_target::align_spreads() {
  // Sixty layers on 16 hosts each leave 40 of 1,000 hosts idle; on 17 hosts each, twenty hosts have two
  // layers and the others one. With 16 for some layers and 17 for others, which the ranges allow, all hosts
  // have one.
  std::uint64_t sum = 0;
  for (const auto& spread : spreads_)
    sum += spread.best;
  if (sum == 0)
    return;
  const auto num_hosts = table_.num_hosts();
  const auto layers_each = std::max<std::uint64_t>(1, (sum + num_hosts / 2) / num_hosts);
  std::uint64_t before = 0;
  for (auto& spread : spreads_) {
    const auto after = before + spread.best;
    const auto scaled = after * layers_each * num_hosts / sum - before * layers_each * num_hosts / sum;
    before = after;
    spread.best = static_cast<std::uint32_t>(std::clamp<std::uint64_t>(scaled, spread.low, spread.high));
  }
}

std::vector<std::uint32_t> placement_target::missing_by_need() const {
  std::vector<std::uint32_t> missing{missing_.begin(), missing_.end()};
  std::uint64_t room =
      table_.num_placed() - (table_.num_experts() - table_.num_unplaced()); // of further replicas
  for (const auto& [id, at] : table_.all_hosts())
    room += std::min<std::uint64_t>(at.room(), missing.size());
  if (!activity_.empty() && room < table_.num_unplaced())
    std::stable_sort(missing.begin(), missing.end(),
                     [this](std::uint32_t l, std::uint32_t r) { return activity_[l] > activity_[r]; });
  return missing;
}

void placement_target::place_missing() {
  const auto missing = missing_by_need();
  std::uint32_t most_replicas = 1;
  for (auto expert : missing) {
    place_loaded(expert);
    most_replicas = std::max(most_replicas, wanted(expert));
  }
  std::vector<bool> is_new(table_.num_layers());
  for (std::uint32_t layer = 0; layer < table_.num_layers(); ++layer)
    is_new[layer] = table_.members(layer).empty();
  for (std::uint32_t replica = 1; replica <= std::min<std::size_t>(most_replicas, table_.num_hosts());
       ++replica)
    for (auto expert : missing) {
      if (table_.hosts_of(expert).size() >= std::min(replica, wanted(expert)))
        continue;
      if (!place(expert, is_new[table_.layer_of(expert)]) && replica == 1 && make_room_for(expert))
        place(expert, false);
    }
  std::erase_if(missing_,
                [this](std::uint32_t expert) { return table_.hosts_of(expert).size() >= wanted(expert); });
}

void placement_target::place_loaded(std::uint32_t expert) {
  if (!loaded_)
    return;
  const auto layer = table_.layer_of(expert);
  const auto holders = loaded_(table_.id_of(expert));
  while (table_.hosts_of(expert).size() < wanted(expert)) {
    host* best = nullptr;
    const auto key = [layer](const host* at) { return std::tuple{at->counts[layer], at->total}; };
    for (auto id : holders)
      if (auto* at = table_.find(id); at != nullptr && at->has_room() && !table_.holds(*at, expert)
                                      && (best == nullptr || key(at) < key(best)))
        best = at;
    if (best == nullptr)
      return;
    table_.add(expert, *best);
  }
}

bool placement_target::place(std::uint32_t expert, bool is_new_layer) {
  const auto layer = table_.layer_of(expert);
  const auto& members = table_.members(layer);
  auto* outside = table_.least_outside(layer);
  if (outside != nullptr && members.size() < (is_new_layer ? spreads_[layer].best : spreads_[layer].low)
      && table_.is_apart(expert, *outside)) {
    table_.add(expert, *outside);
    return true;
  }
  host* best = nullptr;
  const auto key = [&](const host* at) {
    return std::tuple{!table_.is_apart(expert, *at), at->counts[layer], at->total};
  };
  for (auto* at : members)
    if (at->has_room() && !table_.holds(*at, expert) && (best == nullptr || key(at) < key(best)))
      best = at;
  // Another host starts to hold the layer where memory requires it, or where a host has so few experts that
  // balance would give it a share anyway.
  if (outside != nullptr
      && (best == nullptr
          || (!is_new_layer && members.size() < spreads_[layer].high
              && outside->total + table_.num_experts(layer) * settings_.num_replicas / (members.size() + 1)
                     <= best->total)))
    best = outside;
  if (best == nullptr)
    return false;
  if (!table_.is_apart(expert, *best))
    if (auto* apart = table_.least_apart(expert))
      best = apart;
  table_.add(expert, *best);
  return true;
}

void placement_target::separate() {
  if (!table_.knows_topology() || table_.num_replicated() == 0)
    return;
  for (std::uint32_t expert = 0; expert < table_.num_experts(); ++expert) {
    if (table_.is_pinned(expert) || table_.hosts_of(expert).size() < 2)
      continue;
    const auto hosts = table_.hosts_of(expert);
    for (auto* at : hosts)
      if (!table_.is_apart(expert, *at))
        if (auto* to = table_.least_apart(expert, at))
          table_.move(expert, *at, *to);
  }
}

bool placement_target::make_room_for(std::uint32_t expert) {
  if (table_.num_replicated() == 0) // quick answer while most hosts have yet to join
    return false;
  // A further replica of another expert gives way; those that a planner has placed last.
  std::tuple<bool, std::size_t> best_key;
  host* best = nullptr;
  std::uint32_t victim = 0;
  for (std::uint32_t other = 0; other < table_.num_experts(); ++other) {
    const auto& hosts = table_.hosts_of(other);
    const std::tuple key{!table_.is_pinned(other), hosts.size()};
    if (hosts.size() < 2 || (best != nullptr && key <= best_key))
      continue;
    best = *std::max_element(hosts.begin(), hosts.end(),
                             [](const host* l, const host* r) { return l->total < r->total; });
    best_key = key;
    victim = other;
  }
  if (best == nullptr || table_.holds(*best, expert))
    return false;
  table_.remove(victim, *best);
  missing_.insert(victim);
  return true;
}

std::vector<expert_target> placement_target::take_changes() {
  wants_repair_ = false;
  loaded_ = nullptr;
  std::vector<expert_target> result;
  for (auto expert : table_.take_touched()) {
    const auto id = table_.id_of(expert);
    result.push_back({id, hosts(id)});
  }
  return result;
}

std::vector<worker_id> placement_target::hosts(expert_id expert) const {
  std::vector<worker_id> result;
  if (table_.is_known(expert))
    for (const auto* at : table_.hosts_of(table_.flat(expert)))
      result.push_back(at->id);
  return result;
}

std::vector<expert_id> placement_target::experts_of(worker_id id) const {
  std::vector<expert_id> result;
  if (const auto* found = table_.find(id))
    for (auto expert : found->experts)
      result.push_back(table_.id_of(expert));
  return result;
}

} // namespace troupe
