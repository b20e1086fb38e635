#include "actors/scheduler/placement_target.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace troupe {

placement_target::placement_target(settings chosen) : settings_(chosen) {
  settings_.num_replicas = std::max(settings_.num_replicas, 1U);
}

void placement_target::set_layers(std::vector<uint32_t> layer_experts) {
  known_spreads_.clear();
  hints_.together.assign(layer_experts.size(), coactivation{});
  spreads_.assign(layer_experts.size(), {});
  table_ = hosting_table{std::move(layer_experts)};
  wishes_.assign(table_.num_experts(), 0);
  missing_.clear();
  for (uint32_t expert = 0; expert < table_.num_experts(); ++expert)
    missing_.insert(missing_.end(), expert);
  overfull_.clear();
  to_regroup_.clear();
  num_joined_ = 0;
  num_disturbed_ = table_.num_experts();
  wants_repair_ = true;
}

void placement_target::add_host(worker_id id, uint64_t max_experts) {
  num_joined_ += table_.find(id) == nullptr ? 1 : 0;
  if (table_.add_host(id, max_experts).total > max_experts)
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
    if (from != hosts.end() && !table_.is_pinned(expert) && !table_.holds(*to, expert))
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

void placement_target::lost(uint32_t expert) {
  ++num_disturbed_;
  if (table_.hosts_of(expert).size() < wanted(expert))
    missing_.insert(expert);
}

void placement_target::set_hosts(expert_id id, const std::vector<worker_id>& hosts) {
  if (!table_.is_known(id))
    return;
  const auto expert = table_.flat(id);
  const std::set<worker_id> distinct{hosts.begin(), hosts.end()};
  wishes_[expert] = static_cast<uint32_t>(distinct.size());
  table_.pin(expert, !distinct.empty());
  auto current = table_.hosts_of(expert);
  if (distinct.empty()) {
    // Free again: whoever holds most gives the surplus up.
    std::stable_sort(current.begin(), current.end(),
                     [](const host* l, const host* r) { return l->total > r->total; });
    current.resize(current.size() - std::min<size_t>(current.size(), wanted(expert)));
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
    lost(
        expert); // else nobody is disturbed: a planner's moves are no reason to balance what it has not moved
  wants_repair_ = true;
}

void placement_target::set_coactivation(uint32_t layer, coactivation counts) {
  if (layer >= table_.num_layers() || counts.num_experts() != table_.num_experts(layer))
    return;
  hints_.together[layer] = std::move(counts);
  to_regroup_.insert(layer);
  wants_repair_ = true;
}

std::vector<expert_target> placement_target::repair(loaded_lookup loaded) {
  hints_.loaded = std::move(loaded);
  evict_from_full();
  choose_spreads();
  balance();
  for (auto layer : std::exchange(to_regroup_, {}))
    regroup(layer);
  return take_changes();
}

std::vector<expert_target> placement_target::settle(loaded_lookup loaded) {
  hints_.loaded = std::move(loaded);
  std::vector<std::vector<worker_id>> kept(table_.num_experts());
  for (uint32_t expert = 0; expert < table_.num_experts(); ++expert) {
    const auto id = table_.id_of(expert);
    const auto targets = table_.hosts_of(expert);
    for (auto* at : targets) {
      if (hints_.is_loaded(id, at->id))
        kept[expert].push_back(at->id);
      table_.remove(expert, *at);
    }
    if (hints_.loaded)
      for (auto at : hints_.loaded(id))
        if (std::find(kept[expert].begin(), kept[expert].end(), at) == kept[expert].end())
          kept[expert].push_back(at); // those of the target come first
  }
  const auto num_disturbed = num_disturbed_; // what settles is no reason to move anything later
  missing_.clear();
  for (uint32_t expert = 0; expert < table_.num_experts(); ++expert) {
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
      const std::vector<uint32_t> held{full->experts.rbegin(), full->experts.rend()};
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
  if (num_disturbed_ == 0 && num_joined_ == 0) { // only a planner has spoken, which balance would undo
    place_missing();
    return;
  }
  // A hundred changes may cost a hundred times what one does.
  const auto num_wanted = uint64_t{table_.num_experts()} * settings_.num_replicas;
  uint64_t budget = num_disturbed_;
  if (table_.num_hosts() > 0)
    budget += num_joined_ * (num_wanted / table_.num_hosts() + 1);
  uint64_t largest_share = 0;
  for (uint32_t layer = 0; layer < table_.num_layers() && budget > 0; ++layer)
    if (spreads_[layer].low > 0)
      largest_share = std::max<uint64_t>(largest_share, table_.num_placed(layer) / spreads_[layer].low + 1);
  num_disturbed_ = 0;
  num_joined_ = 0;
  // Balance makes room on hosts where replicas were missing for want of it.
  for (size_t before = missing_.size() + 1; missing_.size() < before;) {
    before = missing_.size();
    place_missing();
    balance_placement(table_, spreads_, hints_, std::exchange(budget, 0) + std::exchange(largest_share, 0));
  }
}

void placement_target::choose_spreads() {
  const auto num_hosts = static_cast<uint32_t>(table_.num_hosts());
  uint64_t memory = 0;
  for (const auto& [id, at] : table_.all_hosts())
    memory += std::min<uint64_t>(at.max_experts, table_.num_experts());
  const auto mean = num_hosts == 0 ? 0 : memory / num_hosts;
  for (uint32_t layer = 0; layer < table_.num_layers(); ++layer) {
    const auto num_experts = table_.num_experts(layer) * std::min(settings_.num_replicas, num_hosts);
    // More hosts, or more memory, than a layer can use make no difference.
    const auto usable_hosts =
        std::min(num_hosts, std::max(num_experts, settings_.workload.small_cluster + 1));
    const auto usable_memory = std::min<uint64_t>(mean, num_experts);
    auto [found, is_new] = known_spreads_.try_emplace(std::tuple{num_experts, usable_hosts, usable_memory});
    if (is_new) {
      found->second = choose_spread(settings_.workload, num_experts, usable_hosts, usable_memory);
      // What has room where it is need not move because the hosts' mean memory has become a little less.
      found->second.low =
          std::min(found->second.low, choose_spread(settings_.workload, num_experts, usable_hosts).low);
    }
    spreads_[layer] = found->second;
  }
  align_spreads();
}

void placement_target::align_spreads() {
  // Sixty layers on 16 hosts each leave 40 of 1,000 hosts idle; on 17, twenty hosts have two layers and the
  // others one. Inside of the ranges, some 16 and some 17, all have one.
  uint64_t sum = 0;
  for (const auto& spread : spreads_)
    sum += spread.best;
  if (sum == 0)
    return;
  const auto num_hosts = table_.num_hosts();
  const auto layers_each = std::max<uint64_t>(1, (sum + num_hosts / 2) / num_hosts);
  uint64_t before = 0;
  for (auto& spread : spreads_) {
    const auto after = before + spread.best;
    const auto scaled = after * layers_each * num_hosts / sum - before * layers_each * num_hosts / sum;
    before = after;
    spread.best = static_cast<uint32_t>(std::clamp<uint64_t>(scaled, spread.low, spread.high));
  }
}

void placement_target::place_missing() {
  const auto missing = missing_;
  uint32_t most_replicas = 1;
  for (auto expert : missing) {
    place_loaded(expert);
    most_replicas = std::max(most_replicas, wanted(expert));
  }
  std::vector<bool> is_new(table_.num_layers());
  for (uint32_t layer = 0; layer < table_.num_layers(); ++layer)
    is_new[layer] = table_.members(layer).empty();
  for (uint32_t replica = 1; replica <= std::min<size_t>(most_replicas, table_.num_hosts()); ++replica)
    for (auto expert : missing) {
      if (table_.hosts_of(expert).size() >= std::min(replica, wanted(expert)))
        continue;
      if (!place(expert, is_new[table_.layer_of(expert)]) && replica == 1 && make_room_for(expert))
        place(expert, false);
    }
  std::erase_if(missing_,
                [this](uint32_t expert) { return table_.hosts_of(expert).size() >= wanted(expert); });
}

void placement_target::place_loaded(uint32_t expert) {
  if (!hints_.loaded)
    return;
  const auto layer = table_.layer_of(expert);
  const auto holders = hints_.loaded(table_.id_of(expert));
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

bool placement_target::place(uint32_t expert, bool is_new_layer) {
  const auto layer = table_.layer_of(expert);
  const auto& members = table_.members(layer);
  auto* outside = table_.least_outside(layer);
  if (outside != nullptr && members.size() < (is_new_layer ? spreads_[layer].best : spreads_[layer].low)) {
    table_.add(expert, *outside);
    return true;
  }
  host* best = nullptr;
  const auto key = [layer](const host* at) { return std::tuple{at->counts[layer], at->total}; };
  for (auto* at : members)
    if (at->has_room() && !table_.holds(*at, expert) && (best == nullptr || key(at) < key(best)))
      best = at;
  // Another host takes the layer up where memory asks for it, or where one has so little that balance would
  // give it a share in any case.
  if (outside != nullptr
      && (best == nullptr
          || (!is_new_layer && members.size() < spreads_[layer].high
              && outside->total + table_.num_experts(layer) * settings_.num_replicas / (members.size() + 1)
                     <= best->total)))
    best = outside;
  if (best == nullptr)
    return false;
  table_.add(expert, *best);
  return true;
}

bool placement_target::make_room_for(uint32_t expert) {
  if (table_.num_replicated() == 0) // as while most hosts have yet to join: asked for each missing expert
    return false;
  // Some other expert's further replica gives way, a planner's last.
  std::tuple<bool, size_t> best_key;
  host* best = nullptr;
  uint32_t victim = 0;
  for (uint32_t other = 0; other < table_.num_experts(); ++other) {
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

void placement_target::regroup(uint32_t layer) {
  std::map<host*, std::vector<uint32_t>> shares; // of experts that may move, by host
  std::vector<uint32_t> experts;
  const auto first = table_.first_of(layer);
  const auto members = table_.members(layer);
  for (auto expert = first; expert < first + table_.num_experts(layer); ++expert)
    if (!table_.is_pinned(expert) && table_.hosts_of(expert).size() == 1) {
      shares[table_.hosts_of(expert).front()].push_back(expert - first);
      experts.push_back(expert - first);
    }
  std::vector<uint32_t> sizes;
  std::vector<host*> holders;
  for (auto* at : members)
    if (auto found = shares.find(at); found != shares.end()) {
      holders.push_back(at);
      sizes.push_back(static_cast<uint32_t>(found->second.size()));
    }
  auto groups = group_experts(hints_.together[layer], experts, sizes);
  // Which group goes where does not matter to the tokens: it goes where most of it is.
  std::vector<std::tuple<size_t, size_t, size_t>> overlaps; // experts that need not move, group, holder
  for (size_t group = 0; group < groups.size(); ++group)
    for (size_t holder = 0; holder < holders.size(); ++holder)
      if (sizes[group] == sizes[holder]) {
        size_t common = 0;
        for (auto expert : groups[group])
          common += table_.hosts_of(first + expert).front() == holders[holder] ? 1 : 0;
        overlaps.emplace_back(common, group, holder);
      }
  std::stable_sort(overlaps.begin(), overlaps.end(),
                   [](const auto& l, const auto& r) { return std::get<0>(l) > std::get<0>(r); });
  std::vector<host*> goal_of(groups.size());
  std::vector<bool> is_taken(holders.size());
  for (const auto& [common, group, holder] : overlaps)
    if (goal_of[group] == nullptr && !is_taken[holder]) {
      goal_of[group] = holders[holder];
      is_taken[holder] = true;
    }
  for (size_t group = 0; group < groups.size(); ++group)
    for (auto expert : groups[group])
      if (auto* from = table_.hosts_of(first + expert).front(); from != goal_of[group])
        table_.move(first + expert, *from, *goal_of[group]);
}

std::vector<expert_target> placement_target::take_changes() {
  wants_repair_ = false;
  hints_.loaded = nullptr;
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
