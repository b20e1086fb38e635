#include "actors/planner/static_placement.hpp"

#include "actors/planner/layer_packing.hpp"

namespace troupe {

draft_placement static_placement(const planning_problem& problem) {
  draft_placement draft{problem};
  for (auto layer : problem.layers_by_size()) {
    std::uint64_t num_free = 0;
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert)
      num_free += draft.is_pinned(layer, expert) ? 0 : 1;
    layer_packing packing{draft, layer, layer_quota(draft, layer, num_free)};
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert)
      packing.put(expert, [](host_index host) { return host; });
  }
  complete(draft);
  return draft;
}

} // namespace troupe
