#include "actors/planner/layer_search.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "actors/planner/layer_packing.hpp"

namespace troupe {

namespace {

constexpr auto no_slot = std::numeric_limits<std::uint32_t>::max();
/// Share of the layer's cost; smaller gains are rounding.
constexpr double least_gain = 1e-9;

} // namespace

layer_search::layer_search(draft_placement& draft, std::uint32_t layer)
    : draft_(draft), layer_(layer), num_windows_(draft.problem().num_windows()) {
  slot_of_.assign(draft.problem().num_hosts(), no_slot);
  reset();
}

void layer_search::reset() {
  const auto& problem = draft_.problem();
  const auto& activations = problem.load(layer_);
  loads_.assign(problem.num_hosts() * num_windows_, 0);
  rows_.assign(problem.num_hosts() * num_windows_, 0);
  held_.assign(problem.num_hosts(), {});
  cost_ = 0;
  for (std::uint32_t expert = 0; expert < problem.num_experts(layer_); ++expert) {
    const auto& hosts = draft_.hosts(layer_)[expert];
    for (auto host : hosts) {
      const auto share = 1 / static_cast<double>(hosts.size());
      for (std::size_t window = 0; window < num_windows_; ++window) {
        loads_[host * num_windows_ + window] +=
            share * activations.work_ns[expert * num_windows_ + window] / problem.host(host).speed;
        rows_[host * num_windows_ + window] += share * activations.rows[expert * num_windows_ + window];
      }
      if (!draft_.is_pinned(layer_, expert))
        held_[host].push_back(expert);
    }
    cost_ -= load_gain(expert, {}, hosts);
  }
  touched_.assign(problem.num_hosts(), 0);
  for (host_index host = 0; host < problem.num_hosts(); ++host) {
    for (std::size_t window = 0; window < num_windows_; ++window)
      touched_[host] += problem.weights()[window] * -std::expm1(-rows_[host * num_windows_ + window]);
    cost_ += problem.message_ns() * touched_[host];
  }
  find_tops();
  for (std::size_t window = 0; window < num_windows_; ++window)
    cost_ += problem.weights()[window] * tops_[window].loads[0];
}

void layer_search::find_tops() {
  const auto num_hosts = draft_.problem().num_hosts();
  tops_.assign(num_windows_, {});
  for (std::size_t window = 0; window < num_windows_; ++window) {
    auto& top = tops_[window];
    for (host_index host = 0; host < num_hosts; ++host) {
      const auto load = loads_[host * num_windows_ + window];
      auto at = top.count;
      if (at == window_top::size && load <= top.loads[at - 1])
        continue;
      at = std::min(at, window_top::size - 1);
      for (; at > 0 && top.loads[at - 1] < load; --at) {
        top.loads[at] = top.loads[at - 1];
        top.hosts[at] = top.hosts[at - 1];
      }
      top.loads[at] = load;
      top.hosts[at] = host;
      top.count = std::min(top.count + 1, window_top::size);
    }
  }
}

double layer_search::most_elsewhere(std::size_t window) const {
  const auto& top = tops_[window];
  for (std::size_t at = 0; at < top.count; ++at)
    if (slot_of_[top.hosts[at]] == no_slot)
      return top.loads[at];
  double most = 0;
  for (host_index host = 0; host < slot_of_.size(); ++host)
    if (slot_of_[host] == no_slot)
      most = std::max(most, loads_[host * num_windows_ + window]);
  return most;
}

void layer_search::add_share_changes(std::uint32_t expert, std::span<const host_index> before,
                                     std::span<const host_index> after) {
  const auto old_share = before.empty() ? 0 : 1 / static_cast<double>(before.size());
  const auto new_share = after.empty() ? 0 : 1 / static_cast<double>(after.size());
  for (auto host : before) {
    const auto share = std::find(after.begin(), after.end(), host) == after.end() ? 0 : new_share;
    if (share != old_share)
      changes_.push_back({host, expert, share - old_share});
  }
  for (auto host : after)
    if (std::find(before.begin(), before.end(), host) == before.end())
      changes_.push_back({host, expert, new_share});
}

double layer_search::load_gain(std::uint32_t expert, std::span<const host_index> before,
                               std::span<const host_index> after) const {
  const auto& problem = draft_.problem();
  const auto& present = problem.present(layer_)[expert];
  const auto num_loads = [&](std::span<const host_index> hosts) {
    return std::count_if(hosts.begin(), hosts.end(), [&](host_index host) {
      return !std::binary_search(present.begin(), present.end(), host);
    });
  };
  return static_cast<double>(num_loads(before) - num_loads(after)) * problem.load_cost_ns(layer_);
}

double layer_search::gain_of_changes() {
  ++num_evaluations_;
  const auto& problem = draft_.problem();
  const auto& activations = problem.load(layer_);
  concerned_.clear();
  for (const auto& change : changes_)
    if (slot_of_[change.host] == no_slot) {
      slot_of_[change.host] = static_cast<std::uint32_t>(concerned_.size());
      concerned_.push_back(change.host);
    }
  const auto add_up = [&](const std::vector<double>& sums, const std::vector<double>& parts, bool by_speed) {
    scratch_.resize(concerned_.size() * num_windows_);
    for (std::size_t slot = 0; slot < concerned_.size(); ++slot)
      std::copy_n(sums.data() + concerned_[slot] * num_windows_, num_windows_,
                  scratch_.data() + slot * num_windows_);
    for (const auto& change : changes_) {
      auto* to = scratch_.data() + slot_of_[change.host] * num_windows_;
      const auto* part = parts.data() + change.expert * num_windows_;
      const auto share = by_speed ? change.share / problem.host(change.host).speed : change.share;
      for (std::size_t window = 0; window < num_windows_; ++window)
        to[window] += share * part[window];
    }
  };
  add_up(loads_, activations.work_ns, true);
  double gain = 0;
  for (std::size_t window = 0; window < num_windows_; ++window) {
    auto most = most_elsewhere(window);
    for (std::size_t slot = 0; slot < concerned_.size(); ++slot)
      most = std::max(most, scratch_[slot * num_windows_ + window]);
    gain += problem.weights()[window] * (tops_[window].loads[0] - most);
  }
  if (problem.message_ns() > 0) {
    add_up(rows_, activations.rows, false);
    double messages = 0;
    for (std::size_t slot = 0; slot < concerned_.size(); ++slot) {
      messages -= touched_[concerned_[slot]];
      for (std::size_t window = 0; window < num_windows_; ++window)
        messages += problem.weights()[window] * (1 - std::exp(-scratch_[slot * num_windows_ + window]));
    }
    gain -= problem.message_ns() * messages;
  }
  for (auto host : concerned_)
    slot_of_[host] = no_slot;
  return gain;
}

double layer_search::gain_of(std::uint32_t expert, const std::vector<host_index>& hosts) {
  const auto& before = draft_.hosts(layer_)[expert];
  changes_.clear();
  add_share_changes(expert, before, hosts);
  return gain_of_changes() + load_gain(expert, before, hosts);
}

double layer_search::gain_of(const move& candidate) {
  changes_.clear();
  double gain = 0;
  std::array<std::uint32_t, 2> done{no_expert, no_expert}; // no move has more than two experts
  const auto add = [&](std::uint32_t expert) {
    if (expert == done[0] || expert == done[1])
      return;
    done[done[0] == no_expert ? 0 : 1] = expert;
    const auto& before = draft_.hosts(layer_)[expert];
    after_.assign(before.begin(), before.end());
    for (const auto& at : candidate.removed)
      if (at.expert == expert)
        std::erase(after_, at.host);
    for (const auto& at : candidate.added)
      if (at.expert == expert)
        after_.push_back(at.host);
    add_share_changes(expert, before, after_);
    gain += load_gain(expert, before, after_);
  };
  for (const auto& copies : {candidate.removed, candidate.added})
    for (const auto& at : copies)
      if (at.expert != no_expert)
        add(at.expert);
  return gain + gain_of_changes();
}

void layer_search::consider(const move& candidate, best_move& best) {
  const auto gain = gain_of(candidate);
  if (gain > best.gain + least_gain * cost_) {
    best.gain = gain;
    best.what = candidate;
  }
}

void layer_search::consider_all(host_index from, const std::vector<host_index>& cool, best_move& best) {
  const auto& problem = draft_.problem();
  for (auto expert : held_[from]) {
    const auto num_replicas = draft_.num_replicas(layer_, expert);
    const auto may_replicate = num_replicas < problem.max_replicas();
    const replica here{expert, from};
    if (num_replicas > problem.min_replicas(layer_, expert))
      consider({{here}, {}}, best);
    for (auto to : cool) {
      if (to == from || draft_.holds(to, layer_, expert) || !draft_.is_apart(to, layer_, expert, from))
        continue;
      const auto may_join = may_replicate && draft_.is_apart(to, layer_, expert);
      const replica there{expert, to};
      if (draft_.has_room(to, layer_)) {
        consider({{here}, {there}}, best);
        if (may_join)
          consider({{}, {there}}, best);
      }
      for (auto other : held_[to]) {
        const replica others{other, to};
        if (!draft_.holds(from, layer_, other) && draft_.is_apart(from, layer_, other, to))
          consider({{here, others}, {there, replica{other, from}}}, best);
        if (draft_.num_replicas(layer_, other) > problem.min_replicas(layer_, other)) {
          consider({{here, others}, {there}}, best);
          if (may_join)
            consider({{others}, {there}}, best);
        }
      }
    }
  }
}

std::vector<host_index> layer_search::hot_hosts(std::uint32_t count) const {
  std::vector<double> heat(held_.size());
  for (std::size_t window = 0; window < num_windows_; ++window)
    heat[tops_[window].hosts[0]] += draft_.problem().weights()[window];
  std::vector<host_index> hosts;
  for (host_index host = 0; host < held_.size(); ++host)
    if (!held_[host].empty())
      hosts.push_back(host);
  std::stable_sort(hosts.begin(), hosts.end(), [&](auto l, auto r) { return heat[l] > heat[r]; });
  hosts.resize(std::min<std::size_t>(hosts.size(), count));
  return hosts;
}

std::vector<host_index> layer_search::cool_hosts(std::uint32_t count) const {
  const auto loads = mean_loads(draft_, layer_);
  std::vector<host_index> hosts(held_.size());
  std::iota(hosts.begin(), hosts.end(), 0U);
  std::stable_sort(hosts.begin(), hosts.end(), [&](auto l, auto r) { return loads[l] < loads[r]; });
  hosts.resize(std::min<std::size_t>(hosts.size(), count));
  return hosts;
}

bool layer_search::improve(const scope& where) {
  best_move best;
  const auto cool = cool_hosts(where.num_cool);
  for (auto host : hot_hosts(where.num_hot))
    consider_all(host, cool, best);
  if (best.gain <= 0)
    return false;
  apply(best.what);
  return true;
}

void layer_search::apply(const move& chosen) {
  for (const auto& at : chosen.removed)
    if (at.expert != no_expert)
      draft_.remove(at.host, layer_, at.expert);
  for (const auto& at : chosen.added)
    if (at.expert != no_expert)
      draft_.add(at.host, layer_, at.expert);
  reset();
}

void layer_search::set_hosts(std::uint32_t expert, const std::vector<host_index>& hosts) {
  const auto before = draft_.hosts(layer_)[expert];
  for (auto host : before)
    draft_.remove(host, layer_, expert);
  for (auto host : hosts)
    draft_.add(host, layer_, expert);
  reset();
}

} // namespace troupe
