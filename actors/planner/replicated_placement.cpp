#include "actors/planner/replicated_placement.hpp"

#include <algorithm>
#include <numeric>

#include "actors/planner/layer_packing.hpp"

namespace troupe {

std::vector<uint32_t> replica_counts(const std::vector<double>& work, uint64_t num_places, uint32_t least,
                                     uint32_t most) {
  std::vector<uint32_t> counts(work.size(), std::min(least, most));
  for (auto given = uint64_t{counts.size()} * std::min(least, most); given < num_places; ++given) {
    size_t hottest = work.size();
    for (size_t expert = 0; expert < work.size(); ++expert)
      if (counts[expert] < most
          && (hottest == work.size() || work[expert] / counts[expert] > work[hottest] / counts[hottest]))
        hottest = expert;
    if (hottest == work.size())
      break;
    ++counts[hottest];
  }
  return counts;
}

uint64_t layer_places(const planning_problem& problem, uint32_t layer) {
  uint64_t num_experts = 0;
  for (uint32_t other = 0; other < problem.num_layers(); ++other)
    num_experts += problem.num_experts(other);
  uint64_t places = 0;
  for (host_index host = 0; host < problem.num_hosts(); ++host) {
    const auto share =
        num_experts == 0 ? 0 : problem.capacity(host) * problem.num_experts(layer) / num_experts;
    places += std::min<uint64_t>(share, problem.max_layer_experts());
  }
  return std::max<uint64_t>(places, problem.num_experts(layer));
}

void place_replicated(draft_placement& draft, uint32_t layer, uint64_t num_places) {
  const auto& problem = draft.problem();
  const auto free = experts_by_work(draft, layer);
  std::vector<double> work; // [free]
  for (auto expert : free)
    work.push_back(problem.load(layer).mean_work[expert]);
  uint64_t num_pinned = 0;
  for (host_index host = 0; host < problem.num_hosts(); ++host)
    num_pinned += draft.num_held(host, layer);
  num_places -= std::min(num_places, num_pinned);
  // Where there is no room for the least number of replicas, hot experts get them first (complete adds the
  // others).
  uint32_t least = problem.most_min_replicas(); // of all of them; single ones' are complete()'s
  for (auto expert : free)
    least = std::min(least, problem.min_replicas(layer, expert));
  if (uint64_t{least} * free.size() > num_places)
    least = 1;
  const auto counts = replica_counts(work, num_places, std::min(least, problem.num_hosts()),
                                     std::min(problem.max_replicas(), problem.num_hosts()));
  std::vector<size_t> order; // indices of `free`, one for each replica
  for (size_t at = 0; at < free.size(); ++at)
    order.insert(order.end(), counts[at], at);
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t l, size_t r) { return work[l] / counts[l] > work[r] / counts[r]; });
  auto loads = mean_loads(draft, layer);
  layer_packing packing{draft, layer, layer_quota(draft, layer, order.size())};
  for (auto at : order)
    if (const auto host = packing.put(free[at], [&](host_index other) { return loads[other]; }))
      loads[*host] += work[at] / counts[at] / problem.host(*host).speed;
}

draft_placement replicated_placement(const planning_problem& problem) {
  draft_placement draft{problem};
  for (auto layer : problem.layers_by_size())
    place_replicated(draft, layer, layer_places(problem, layer));
  complete(draft);
  return draft;
}

} // namespace troupe
