#include "actors/planner/placement_score.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace troupe {

namespace {

void add_layer(placement_score& result, const draft_placement& draft, std::uint32_t layer) {
  const auto& problem = draft.problem();
  const auto& activations = problem.load(layer);
  const auto num_windows = problem.num_windows();
  double most = 0;
  double mean_most = 0;
  double speeds = 0;
  for (host_index host = 0; host < problem.num_hosts(); ++host)
    speeds += problem.host(host).speed;
  for (std::size_t window = 0; window < num_windows; ++window) {
    std::vector<double> loads(problem.num_hosts());
    std::vector<double> rows(problem.num_hosts());
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert) {
      const auto& hosts = draft.hosts(layer)[expert];
      for (auto host : hosts) {
        const auto share = 1 / static_cast<double>(hosts.size());
        loads[host] += share * activations.work_ns[expert * num_windows + window] / problem.host(host).speed;
        rows[host] += share * activations.rows[expert * num_windows + window];
      }
    }
    const auto weight = problem.weights()[window];
    const auto busiest = loads.empty() ? 0 : *std::max_element(loads.begin(), loads.end());
    const auto sum = std::accumulate(loads.begin(), loads.end(), 0.0);
    result.busiest_ns += weight * busiest;
    double work = 0;
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert)
      work += activations.work_ns[expert * num_windows + window];
    result.even_ns += speeds > 0 ? weight * work / speeds : 0;
    for (auto touching : rows)
      result.messages += weight * -std::expm1(-touching);
    mean_most += sum > 0 ? weight * busiest / sum : 0;
    most = std::max(most, sum > 0 ? busiest / sum : 0);
  }
  result.mean_max_share += mean_most;
  result.max_share += most;
}

} // namespace

placement_score score(const draft_placement& draft) {
  const auto& problem = draft.problem();
  placement_score result;
  std::uint32_t num_layers = 0;
  for (std::uint32_t layer = 0; layer < problem.num_layers(); ++layer) {
    if (problem.num_experts(layer) == 0)
      continue;
    ++num_layers;
    add_layer(result, draft, layer);
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert)
      for (auto host : draft.hosts(layer)[expert]) {
        const auto& present = problem.present(layer)[expert];
        if (std::binary_search(present.begin(), present.end(), host))
          continue;
        ++result.loads;
        result.bytes_moved += problem.expert_bytes(layer);
        result.load_cost_ns += problem.load_cost_ns(layer);
      }
  }
  if (num_layers > 0) {
    result.mean_max_share /= num_layers;
    result.max_share /= num_layers;
  }
  result.step_ns = result.busiest_ns + problem.message_ns() * result.messages;
  return result;
}

} // namespace troupe
