#include "actors/planner/greedy_placement.hpp"

#include "actors/planner/layer_packing.hpp"

namespace troupe {

void place_greedily(draft_placement& draft, std::uint32_t layer, std::uint32_t most_hosts) {
  const auto& problem = draft.problem();
  const auto experts = experts_by_work(draft, layer);
  auto loads = mean_loads(draft, layer);
  layer_packing packing{draft, layer, layer_quota(draft, layer, experts.size(), most_hosts)};
  for (auto expert : experts)
    if (const auto host = packing.put(expert, [&](host_index at) { return loads[at]; }))
      loads[*host] += problem.load(layer).mean_work[expert] / problem.host(*host).speed;
}

draft_placement greedy_placement(const planning_problem& problem) {
  draft_placement draft{problem};
  for (auto layer : problem.layers_by_size())
    place_greedily(draft, layer);
  complete(draft);
  return draft;
}

} // namespace troupe
