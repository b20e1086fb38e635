#include "actors/planner/anticorrelated_placement.hpp"

#include <cmath>
#include <cstddef>
#include <numeric>

#include "actors/planner/layer_packing.hpp"

namespace troupe {

std::vector<double> expert_correlations(const planning_problem& problem, std::uint32_t layer) {
  const auto& load = problem.load(layer);
  const auto& weights = problem.weights();
  const std::size_t num_experts = problem.num_experts(layer);
  const auto num_windows = weights.size();
  std::vector<double> sums(num_windows);
  for (std::size_t expert = 0; expert < num_experts; ++expert)
    for (std::size_t window = 0; window < num_windows; ++window)
      sums[window] += load.work_ns[expert * num_windows + window];
  // Standardised shares: a correlation is then a sum of products.
  std::vector<double> scores(num_experts * num_windows);
  for (std::size_t expert = 0; expert < num_experts; ++expert) {
    auto* row = scores.data() + expert * num_windows;
    double mean = 0;
    for (std::size_t window = 0; window < num_windows; ++window) {
      row[window] = sums[window] > 0 ? load.work_ns[expert * num_windows + window] / sums[window] : 0;
      mean += weights[window] * row[window];
    }
    double variance = 0;
    for (std::size_t window = 0; window < num_windows; ++window)
      variance += weights[window] * (row[window] - mean) * (row[window] - mean);
    constexpr double least_deviation = 1e-9; // of a share; less is rounding
    const auto deviation = std::sqrt(variance);
    for (std::size_t window = 0; window < num_windows; ++window)
      row[window] =
          deviation > least_deviation ? std::sqrt(weights[window]) * (row[window] - mean) / deviation : 0;
  }
  std::vector<double> result(num_experts * num_experts);
  for (std::size_t a = 0; a < num_experts; ++a)
    for (std::size_t b = a; b < num_experts; ++b) {
      const auto* row = scores.data() + a * num_windows;
      result[a * num_experts + b] = result[b * num_experts + a] =
          std::inner_product(row, row + num_windows, scores.data() + b * num_windows, 0.0);
    }
  return result;
}

void place_anticorrelated(draft_placement& draft, std::uint32_t layer) {
  constexpr double correlation_weight = 0.5;
  const auto& problem = draft.problem();
  const std::size_t num_experts = problem.num_experts(layer);
  const auto& work = problem.load(layer).mean_work;
  const auto total = std::accumulate(work.begin(), work.end(), 0.0);
  const auto correlations = expert_correlations(problem, layer);
  const auto experts = experts_by_work(draft, layer);
  std::vector<std::vector<std::uint32_t>> held(problem.num_hosts()); // [hosts] experts
  for (std::uint32_t expert = 0; expert < num_experts; ++expert)
    for (auto host : draft.hosts(layer)[expert])
      held[host].push_back(expert);
  layer_packing packing{draft, layer, layer_quota(draft, layer, experts.size())};
  for (auto expert : experts) {
    const auto key = [&](host_index host) {
      double sum = 0;
      for (auto other : held[host])
        sum += (total > 0 ? work[other] / total : 0)
               + correlation_weight * correlations[expert * num_experts + other];
      return sum > 0 ? sum / problem.host(host).speed : sum;
    };
    if (const auto host = packing.put(expert, key))
      held[*host].push_back(expert);
  }
}

draft_placement anticorrelated_placement(const planning_problem& problem) {
  draft_placement draft{problem};
  for (auto layer : problem.layers_by_size())
    place_anticorrelated(draft, layer);
  complete(draft);
  return draft;
}

} // namespace troupe
