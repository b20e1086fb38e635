#include "actors/scheduler/placement_spread.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace troupe {

namespace {

/// Probability that none of `num_rows` rows chooses one of `num_held` out of `num_experts`.
double untouched(std::uint32_t num_experts, std::uint32_t num_held, std::uint32_t num_rows,
                 std::uint32_t top_k) {
  double one_row = 1;
  for (std::uint32_t choice = 0; choice < top_k; ++choice) {
    if (num_held + choice >= num_experts)
      return 0;
    one_row *= static_cast<double>(num_experts - num_held - choice) / (num_experts - choice);
  }
  return std::pow(one_row, num_rows);
}

/// Distribution function of a binomial variable: [n + 1], P(X <= x).
std::vector<double> binomial_cdf(std::uint32_t n, double p) {
  std::vector<double> result(n + 1, 1.0);
  if (p >= 1) {
    std::fill(result.begin(), result.end() - 1, 0.0);
    return result;
  }
  if (p <= 0)
    return result;
  double sum = 0;
  for (std::uint32_t x = 0; x <= n; ++x) {
    const auto choices = std::lgamma(n + 1.0) - std::lgamma(x + 1.0) - std::lgamma(n - x + 1.0);
    sum += std::exp(choices + x * std::log(p) + (n - x) * std::log1p(-p));
    result[x] = std::min(sum, 1.0);
  }
  return result;
}

} // namespace

double expected_hosts_touched(std::uint32_t num_experts, std::uint32_t num_hosts, std::uint32_t num_rows,
                              std::uint32_t top_k) {
  if (num_experts == 0 || num_hosts == 0)
    return 0;
  top_k = std::min(top_k, num_experts);
  const auto share = num_experts / num_hosts;
  const auto num_larger = num_experts % num_hosts;
  return num_larger * (1 - untouched(num_experts, share + 1, num_rows, top_k))
         + (num_hosts - num_larger) * (1 - untouched(num_experts, share, num_rows, top_k));
}

double expected_max_active(std::uint32_t num_experts, std::uint32_t num_hosts, std::uint32_t num_rows,
                           std::uint32_t top_k) {
  if (num_experts == 0 || num_hosts == 0)
    return 0;
  top_k = std::min(top_k, num_experts);
  const auto active = 1 - untouched(num_experts, 1, num_rows, top_k);
  const auto share = num_experts / num_hosts;
  const auto num_larger = num_experts % num_hosts;
  const auto smaller = binomial_cdf(share, active);
  const auto larger = binomial_cdf(share + 1, active);
  // E[max] is the sum over x of P(max > x).
  double result = 0;
  for (std::uint32_t x = 0; x <= share; ++x)
    result += 1 - std::pow(larger[x], num_larger) * std::pow(smaller[x], num_hosts - num_larger);
  return result;
}

double layer_cost_ns(const placement_workload& workload, std::uint32_t num_experts, std::uint32_t num_hosts) {
  return workload.costs.message_ns
             * expected_hosts_touched(num_experts, num_hosts, workload.num_rows, workload.top_k)
         + workload.costs.expert_ns
               * expected_max_active(num_experts, num_hosts, workload.num_rows, workload.top_k);
}

spread_range choose_spread(const placement_workload& workload, std::uint32_t num_experts,
                           std::uint32_t num_hosts, std::uint64_t max_experts) {
  const auto most = std::min(num_experts, num_hosts);
  if (most == 0)
    return {};
  if (num_hosts <= workload.small_cluster)
    return {most, most, most};
  const auto room = std::max<std::uint64_t>(max_experts, 1);
  const auto least = static_cast<std::uint32_t>(std::min<std::uint64_t>((num_experts - 1) / room + 1, most));
  std::vector<double> costs;
  for (auto hosts = least; hosts <= most; ++hosts)
    costs.push_back(layer_cost_ns(workload, num_experts, hosts));
  const auto best = std::min_element(costs.begin(), costs.end());
  if (best == costs.end() - 1)
    return {most, most, most};
  const auto limit = *best * (1 + workload.slack);
  auto low = best;
  while (low != costs.begin() && *(low - 1) <= limit)
    --low;
  auto high = best;
  while (high + 1 != costs.end() && *(high + 1) <= limit)
    ++high;
  const auto hosts_at = [&](auto at) { return least + static_cast<std::uint32_t>(at - costs.begin()); };
  const auto floor = std::min(most, workload.small_cluster);
  return {hosts_at(low), std::max(hosts_at(best), floor), std::max(hosts_at(high), floor)};
}

} // namespace troupe
