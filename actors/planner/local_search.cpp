#include "actors/planner/local_search.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

#include "actors/planner/anticorrelated_placement.hpp"
#include "actors/planner/greedy_placement.hpp"
#include "actors/planner/layer_packing.hpp"
#include "actors/planner/layer_search.hpp"
#include "actors/planner/replicated_placement.hpp"

namespace troupe {

namespace {

/// A fresh placement that costs more than this factor times the best one is not searched further.
constexpr double hopeless = 1.3;

/// The rest of a bound.
class budget {
 public:
  explicit budget(std::uint64_t evaluations) : left_(evaluations) {}

  bool is_spent() const { return left_ == 0; }

  std::uint64_t left() const { return left_; }

  void spend(std::uint64_t evaluations) { left_ -= std::min(left_, evaluations); }

 private:
  std::uint64_t left_;
};

/// @returns false if no move in this scope gains
bool improve(layer_search& layer, const layer_search::scope& where, budget& left, std::uint32_t num_moves) {
  for (std::uint32_t made = 0; made < num_moves && !left.is_spent(); ++made) {
    const auto before = layer.num_evaluations();
    const auto has_gained = layer.improve(where);
    left.spend(layer.num_evaluations() - before);
    if (!has_gained)
      return false;
  }
  return true;
}

void improve_in_turns(draft_placement& draft, const search_settings& settings, budget& left) {
  std::vector<layer_search> layers;
  for (std::uint32_t layer = 0; layer < draft.problem().num_layers(); ++layer)
    layers.emplace_back(draft, layer);
  for (const auto& where : {settings.narrow, layer_search::scope{}}) {
    std::vector<std::uint32_t> active(layers.size());
    std::iota(active.begin(), active.end(), 0U);
    while (!active.empty() && !left.is_spent())
      std::erase_if(active, [&](std::uint32_t layer) {
        return !improve(layers[layer], where, left, settings.moves_a_turn);
      });
  }
}

/// Arranges a layer anew after clearing it.
using rearrangement = std::function<void(draft_placement&, std::uint32_t)>;

std::vector<rearrangement> rearrangements(const planning_problem& problem, std::uint64_t num_places) {
  std::vector<rearrangement> result;
  if (problem.message_ns() > 0)
    for (std::uint32_t power = 1; power < problem.num_hosts(); power *= 2)
      for (auto hosts : {power, power + power / 2})
        if (hosts < problem.num_hosts() && (power == hosts || power > 1))
          result.emplace_back(
              [hosts](draft_placement& draft, std::uint32_t layer) { place_greedily(draft, layer, hosts); });
  result.emplace_back([](draft_placement& draft, std::uint32_t layer) { place_greedily(draft, layer); });
  result.emplace_back(
      [](draft_placement& draft, std::uint32_t layer) { place_anticorrelated(draft, layer); });
  result.emplace_back([num_places](draft_placement& draft, std::uint32_t layer) {
    place_replicated(draft, layer, num_places);
  });
  return result;
}

bool is_whole(const draft_placement& draft, std::uint32_t layer, const layer_hosts& than) {
  const auto& hosts = draft.hosts(layer);
  for (std::uint32_t expert = 0; expert < hosts.size(); ++expert)
    if (hosts[expert].size()
        < std::min<std::size_t>(than[expert].size(), draft.problem().min_replicas(layer, expert)))
      return false;
  return true;
}

void rearrange(draft_placement& draft, std::uint32_t layer, const search_settings& settings, budget& left) {
  const auto& problem = draft.problem();
  const auto start = draft.hosts(layer);
  const auto start_cost = layer_search{draft, layer}.cost();
  std::uint64_t num_places = 0;
  for (const auto& hosts : start)
    num_places += hosts.size();
  num_places = std::max(num_places, layer_places(problem, layer));
  std::vector<std::pair<double, layer_hosts>> fresh; // by cost
  for (const auto& next : rearrangements(problem, num_places)) {
    draft.clear_layer(layer);
    next(draft, layer);
    complete_layer(draft, layer, problem.most_min_replicas());
    if (const auto cost = layer_search{draft, layer}.cost();
        cost < start_cost * hopeless && is_whole(draft, layer, start))
      fresh.emplace_back(cost, draft.hosts(layer));
  }
  std::sort(fresh.begin(), fresh.end());
  auto best = start;
  auto best_cost = start_cost;
  for (const auto& [cost, hosts] : fresh) {
    draft.set_layer(layer, hosts);
    layer_search searched{draft, layer};
    for (const auto& where : {settings.narrow, layer_search::scope{}})
      improve(searched, where, left, UINT32_MAX);
    if (searched.cost() < best_cost) {
      best = draft.hosts(layer);
      best_cost = searched.cost();
    }
  }
  draft.set_layer(layer, best);
}

/// Undoes what gains no more than it costs: returns the hosts that an expert had in `baseline`, if there is
/// room.
void undo_idle_moves(draft_placement& draft, const std::vector<layer_hosts>& baseline) {
  for (bool has_changed = true; has_changed;) {
    has_changed = false;
    for (std::uint32_t layer = 0; layer < baseline.size(); ++layer) {
      layer_search searched{draft, layer};
      for (std::uint32_t expert = 0; expert < baseline[layer].size(); ++expert) {
        const auto& before = baseline[layer][expert];
        const auto now = draft.hosts(layer)[expert];
        if (before == now
            || before.size() < std::min<std::size_t>(now.size(), draft.problem().min_replicas(layer, expert))
            || !std::all_of(before.begin(), before.end(), [&](host_index host) {
                 return draft.holds(host, layer, expert) || draft.has_room(host, layer);
               }))
          continue;
        if (searched.gain_of(expert, before) >= 0) {
          searched.set_hosts(expert, before);
          has_changed = true;
        }
      }
    }
  }
}

} // namespace

search_result search(draft_placement& draft, const search_settings& settings) {
  const auto num_layers = draft.problem().num_layers();
  if (draft.problem().num_hosts() == 0 || num_layers == 0)
    return {};
  std::vector<layer_hosts> baseline;
  for (std::uint32_t layer = 0; layer < num_layers; ++layer)
    baseline.push_back(draft.hosts(layer));
  // Half of the bound for the present placement, half for other strategies' proposals.
  budget first{settings.max_evaluations / 2};
  improve_in_turns(draft, settings, first);
  auto is_optimum = !first.is_spent();
  budget second{settings.max_evaluations - settings.max_evaluations / 2};
  for (std::uint32_t layer = 0; layer < num_layers; ++layer) {
    budget share{second.left() / (num_layers - layer)};
    const auto before = share.left();
    if (draft.problem().num_experts(layer) > 0)
      rearrange(draft, layer, settings, share);
    second.spend(before - share.left());
    is_optimum = is_optimum && !share.is_spent();
  }
  undo_idle_moves(draft, baseline);
  return {settings.max_evaluations - first.left() - second.left(), is_optimum};
}

} // namespace troupe
