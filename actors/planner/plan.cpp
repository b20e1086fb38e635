#include "actors/planner/plan.hpp"

#include <algorithm>
#include <numeric>

#include "actors/planner/anticorrelated_placement.hpp"
#include "actors/planner/greedy_placement.hpp"
#include "actors/planner/layer_packing.hpp"
#include "actors/planner/replicated_placement.hpp"
#include "actors/planner/static_placement.hpp"

namespace troupe {

namespace {

draft_placement placed(const planning_problem& problem, const planner_settings& settings,
                       search_result& searched) {
  switch (settings.strategy) {
  case planner_strategy::fixed:
    return static_placement(problem);
  case planner_strategy::greedy:
    return greedy_placement(problem);
  case planner_strategy::anticorrelated:
    return anticorrelated_placement(problem);
  case planner_strategy::replicated:
    return replicated_placement(problem);
  case planner_strategy::search:
    break;
  }
  auto draft = repaired(problem);
  searched = search(draft, settings.search);
  return draft;
}

} // namespace

std::string_view to_string(planner_strategy strategy) {
  switch (strategy) {
  case planner_strategy::fixed:
    return "static";
  case planner_strategy::greedy:
    return "greedy";
  case planner_strategy::anticorrelated:
    return "anti-correlation";
  case planner_strategy::replicated:
    return "EPLB-like";
  case planner_strategy::search:
    return "search";
  }
  return "unknown";
}

draft_placement repaired(const planning_problem& problem) {
  draft_placement draft{problem};
  const auto keep = [&](const auto& wanted) {
    for (auto layer : problem.layers_by_size())
      for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert)
        for (auto host : problem.present(layer)[expert])
          if (draft.num_replicas(layer, expert) < wanted(layer, expert) && draft.may_add(host, layer, expert))
            draft.add(host, layer, expert);
  };
  // One host for every expert comes before any second host.
  keep([](std::uint32_t, std::uint32_t) { return 1U; });
  for (auto layer : problem.layers_by_size())
    complete_layer(draft, layer, 1);
  keep([&](std::uint32_t layer, std::uint32_t expert) { return problem.min_replicas(layer, expert); });
  complete(draft);
  keep([&](std::uint32_t, std::uint32_t) { return problem.max_replicas(); });
  return draft;
}

placement_plan plan(const planner_input& input, const planner_settings& settings) {
  const planning_problem problem{input};
  placement_plan result;
  const auto after = placed(problem, settings, result.search);
  result.before = score(repaired(problem));
  result.after = score(after);
  for (std::uint32_t layer = 0; layer < problem.num_layers(); ++layer)
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert) {
      expert_target change{{layer, expert}, {}};
      for (auto host : after.hosts(layer)[expert])
        change.hosts.push_back(problem.host(host).id);
      if (change.hosts.empty())
        result.unplaced.push_back(change.expert);
      auto present = input.present[layer][expert];
      std::sort(present.begin(), present.end());
      if (change.hosts != present && !change.hosts.empty())
        result.changes.push_back(std::move(change));
    }
  return result;
}

} // namespace troupe
