#include "actors/planner/replicated_placement.hpp"

#include <algorithm>
#include <numeric>

#include "actors/planner/layer_packing.hpp"

namespace troupe {

std::vector<std::uint32_t> replica_counts(const std::vector<double>& work, std::uint64_t num_places,
                                          std::uint32_t least, std::uint32_t most) {
  std::vector<std::uint32_t> counts(work.size(), std::min(least, most));
  for (auto given = std::uint64_t{counts.size()} * std::min(least, most); given < num_places; ++given) {
    std::size_t hottest = work.size();
    for (std::size_t expert = 0; expert < work.size(); ++expert)
      if (counts[expert] < most
          && (hottest == work.size() || work[expert] / counts[expert] > work[hottest] / counts[hottest]))
        hottest = expert;
    if (hottest == work.size())
      break;
    ++counts[hottest];
  }
  return counts;
}

std::uint64_t layer_places(const planning_problem& problem, std::uint32_t layer) {
  std::uint64_t num_experts = 0;
  for (std::uint32_t other = 0; other < problem.num_layers(); ++other)
    num_experts += problem.num_experts(other);
  std::uint64_t places = 0;
  for (host_index host = 0; host < problem.num_hosts(); ++host) {
    const auto share =
        num_experts == 0 ? 0 : problem.capacity(host) * problem.num_experts(layer) / num_experts;
    places += std::min<std::uint64_t>(share, problem.max_layer_experts());
  }
  return std::max<std::uint64_t>(places, problem.num_experts(layer));
}

void place_replicated(draft_placement& draft, std::uint32_t layer, std::uint64_t num_places) {
  const auto& problem = draft.problem();
  const auto free = experts_by_work(draft, layer);
  std::vector<double> work; // [free]
  for (auto expert : free)
    work.push_back(problem.load(layer).mean_work[expert]);
  std::uint64_t num_pinned = 0;
  for (host_index host = 0; host < problem.num_hosts(); ++host)
    num_pinned += draft.num_held(host, layer);
  num_places -= std::min(num_places, num_pinned);
  // If there is no room for the least number of replicas, hot experts get them first (complete adds the
  // others).
  std::uint32_t least = problem.most_min_replicas(); // of all experts; complete() handles single ones'
  for (auto expert : free)
    least = std::min(least, problem.min_replicas(layer, expert));
  if (std::uint64_t{least} * free.size() > num_places)
    least = 1;
  const auto counts = replica_counts(work, num_places, std::min(least, problem.num_hosts()),
                                     std::min(problem.max_replicas(), problem.num_hosts()));
  std::vector<std::size_t> order; // indices of `free`, one for each replica
  for (std::size_t at = 0; at < free.size(); ++at)
    order.insert(order.end(), counts[at], at);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t l, std::size_t r) { return work[l] / counts[l] > work[r] / counts[r]; });
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
