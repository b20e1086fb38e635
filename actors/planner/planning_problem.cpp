#include "actors/planner/planning_problem.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

namespace troupe {

namespace {

/// Weight of the decayed counts, as one more window, relative to all others together. They are less noisy
/// than windows, to whose noise a search would otherwise fit (docs/decisions/0014-placement-planner.md).
constexpr double counts_weight = 0.3;

/// Rows of one layer scaled to one step; without rows, all equal.
std::vector<double> rows_of_step(const std::vector<double>& rows, double num_steps, double rows_per_step) {
  const auto sum = std::accumulate(rows.begin(), rows.end(), 0.0);
  if (!(sum > 0) || !std::isfinite(sum))
    return std::vector<double>(rows.size(),
                               rows.empty() ? 0 : rows_per_step / static_cast<double>(rows.size()));
  const auto scale = num_steps > 0 ? 1 / num_steps : rows_per_step / sum;
  std::vector<double> result;
  result.reserve(rows.size());
  for (auto count : rows)
    result.push_back(std::max(0.0, count) * scale);
  return result;
}

} // namespace

planning_problem::planning_problem(const planner_input& input) : costs_(input.costs) {
  for (const auto& worker : input.workers)
    if (!input.constraints.drained.contains(worker.id)) {
      hosts_.push_back(worker);
      if (!(hosts_.back().speed > 0) || !std::isfinite(hosts_.back().speed))
        hosts_.back().speed = 1;
    }
  std::sort(hosts_.begin(), hosts_.end(), [](const auto& l, const auto& r) { return l.id < r.id; });
  hosts_.erase(
      std::unique(hosts_.begin(), hosts_.end(), [](const auto& l, const auto& r) { return l.id == r.id; }),
      hosts_.end());
  min_replicas_ = std::max(input.constraints.min_replicas, 1U);
  most_min_replicas_ = min_replicas_;
  for (const auto& [expert, count] : input.constraints.more_replicas)
    if (count > min_replicas_) {
      more_replicas_[expert] = count;
      most_min_replicas_ = std::max(most_min_replicas_, count);
    }
  max_replicas_ = std::max(input.constraints.max_replicas, most_min_replicas_);
  max_layer_experts_ = input.constraints.max_layer_experts;

  std::uint64_t num_experts = 0;
  long double bytes = 0;
  for (std::uint32_t layer = 0; layer < input.present.size(); ++layer) {
    const auto& experts = input.present[layer];
    expert_bytes_.push_back(layer < input.expert_bytes.size() ? input.expert_bytes[layer] : 0);
    num_experts += experts.size();
    bytes += static_cast<long double>(expert_bytes_.back()) * static_cast<long double>(experts.size());
    layer_hosts hosts;
    for (const auto& ids : experts)
      hosts.push_back(apart(indices_of(ids)));
    present_.push_back(std::move(hosts));
    pins_.emplace_back(experts.size());
  }
  for (const auto& pin : input.constraints.pins)
    if (pin.expert.layer < pins_.size() && pin.expert.index < pins_[pin.expert.layer].size())
      pins_[pin.expert.layer][pin.expert.index] = indices_of(pin.hosts);
  for (const auto& host : hosts_) {
    auto capacity = std::min(host.max_experts, num_experts);
    if (bytes > 0)
      capacity = std::min(capacity, static_cast<std::uint64_t>(std::min<long double>(
                                        static_cast<long double>(host.memory_bytes) * num_experts / bytes,
                                        static_cast<long double>(num_experts))));
    capacities_.push_back(capacity);
  }
  layers_by_size_.resize(present_.size());
  std::iota(layers_by_size_.begin(), layers_by_size_.end(), 0U);
  std::stable_sort(layers_by_size_.begin(), layers_by_size_.end(),
                   [this](std::uint32_t l, std::uint32_t r) { return expert_bytes_[l] > expert_bytes_[r]; });

  for (const auto& window : input.history.windows)
    if (window.weight > 0 && std::isfinite(window.weight) && has_shape(window.rows))
      add_window(window);
  add_counts(input.history.counts);
  finish_loads();
}

std::vector<host_index> planning_problem::indices_of(const std::vector<worker_id>& ids) const {
  std::vector<host_index> result;
  for (auto id : ids) {
    const auto at = std::lower_bound(hosts_.begin(), hosts_.end(), id,
                                     [](const auto& l, worker_id r) { return l.id < r; });
    if (at != hosts_.end() && at->id == id)
      result.push_back(static_cast<host_index>(at - hosts_.begin()));
  }
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

std::vector<host_index> planning_problem::apart(const std::vector<host_index>& hosts) const {
  std::vector<host_index> result;
  const auto is_free = [&](host_index host) {
    return std::none_of(result.begin(), result.end(),
                        [&](host_index other) { return other == host || is_beside(host, other); });
  };
  std::copy_if(hosts.begin(), hosts.end(), std::back_inserter(result), is_free);
  for (host_index other = 0; other < num_hosts() && result.size() < hosts.size(); ++other)
    if (is_free(other))
      return result;
  return hosts;
}

bool planning_problem::has_shape(const expert_table<float>& rows) const {
  return std::equal(rows.begin(), rows.end(), present_.begin(), present_.end(),
                    [](const auto& l, const auto& r) { return l.size() == r.size(); });
}

void planning_problem::add_window(const planner_window& window) {
  auto& added = windows_.emplace_back();
  for (const auto& rows : window.rows)
    added.push_back(rows_of_step({rows.begin(), rows.end()}, window.num_steps, costs_.rows_per_step));
  weights_.push_back(window.weight);
}

void planning_problem::add_counts(const expert_table<double>& counts) {
  const auto is_known = std::equal(counts.begin(), counts.end(), present_.begin(), present_.end(),
                                   [](const auto& l, const auto& r) { return l.size() == r.size(); });
  if (!is_known && !windows_.empty())
    return;
  const auto sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  std::vector<std::vector<double>> added;
  for (std::uint32_t layer = 0; layer < num_layers(); ++layer) {
    double rows_per_step = windows_.empty() ? costs_.rows_per_step : 0;
    for (std::size_t window = 0; window < windows_.size(); ++window)
      rows_per_step += weights_[window] / sum
                       * std::accumulate(windows_[window][layer].begin(), windows_[window][layer].end(), 0.0);
    added.push_back(
        rows_of_step(is_known ? counts[layer] : std::vector<double>(num_experts(layer)), 0, rows_per_step));
  }
  weights_.push_back(windows_.empty() ? 1 : sum * counts_weight);
  windows_.push_back(std::move(added));
}

void planning_problem::finish_loads() {
  const auto sum = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  for (auto& weight : weights_)
    weight /= sum;
  for (std::uint32_t layer = 0; layer < present_.size(); ++layer) {
    auto& load = loads_.emplace_back();
    for (std::uint32_t expert = 0; expert < present_[layer].size(); ++expert) {
      double mean = 0;
      for (std::size_t window = 0; window < windows_.size(); ++window) {
        const auto rows = windows_[window][layer][expert];
        const auto work = costs_.expert_ns * -std::expm1(-rows) + costs_.row_ns * rows;
        load.rows.push_back(rows);
        load.work_ns.push_back(work);
        mean += weights_[window] * work;
      }
      load.mean_work.push_back(mean);
    }
  }
  windows_.clear();
}

double planning_problem::load_cost_ns(std::uint32_t layer) const {
  const auto cost = costs_.load_ns + costs_.load_ns_per_byte * static_cast<double>(expert_bytes_[layer]);
  return cost / std::max(costs_.horizon_steps, 1.0);
}

} // namespace troupe
