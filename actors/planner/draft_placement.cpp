#include "actors/planner/draft_placement.hpp"

#include <algorithm>

namespace troupe {

draft_placement::draft_placement(const planning_problem& problem)
    : problem_(&problem),
      held_(problem.num_hosts()),
      layer_counts_(problem.num_layers(), std::vector<std::uint32_t>(problem.num_hosts())) {
  for (std::uint32_t layer = 0; layer < problem.num_layers(); ++layer) {
    hosts_.emplace_back(problem.num_experts(layer));
    pinned_.emplace_back(problem.num_experts(layer));
    for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert)
      for (auto host : problem.pin(layer, expert))
        if (has_room(host, layer)) {
          add(host, layer, expert);
          pinned_[layer][expert] = true;
        }
  }
}

bool draft_placement::holds(host_index host, std::uint32_t layer, std::uint32_t expert) const {
  const auto& hosts = hosts_[layer][expert];
  return std::binary_search(hosts.begin(), hosts.end(), host);
}

bool draft_placement::is_apart(host_index host, std::uint32_t layer, std::uint32_t expert,
                               std::optional<host_index> leaving) const {
  const auto& hosts = hosts_[layer][expert];
  return std::none_of(hosts.begin(), hosts.end(),
                      [&](host_index other) { return other != leaving && problem_->is_beside(host, other); });
}

bool draft_placement::has_room(host_index host, std::uint32_t layer) const {
  const auto& limits = problem_->host(host);
  const auto& held = held_[host];
  const auto bytes = problem_->expert_bytes(layer);
  return held.num_experts < limits.max_experts && bytes <= limits.memory_bytes
         && held.bytes <= limits.memory_bytes - bytes
         && layer_counts_[layer][host] < problem_->max_layer_experts();
}

void draft_placement::add(host_index host, std::uint32_t layer, std::uint32_t expert) {
  auto& hosts = hosts_[layer][expert];
  hosts.insert(std::lower_bound(hosts.begin(), hosts.end(), host), host);
  ++held_[host].num_experts;
  held_[host].bytes += problem_->expert_bytes(layer);
  ++layer_counts_[layer][host];
}

void draft_placement::remove(host_index host, std::uint32_t layer, std::uint32_t expert) {
  auto& hosts = hosts_[layer][expert];
  hosts.erase(std::lower_bound(hosts.begin(), hosts.end(), host));
  --held_[host].num_experts;
  held_[host].bytes -= problem_->expert_bytes(layer);
  --layer_counts_[layer][host];
}

void draft_placement::clear_layer(std::uint32_t layer) {
  for (std::uint32_t expert = 0; expert < hosts_[layer].size(); ++expert)
    if (!is_pinned(layer, expert))
      while (!hosts_[layer][expert].empty())
        remove(hosts_[layer][expert].back(), layer, expert);
}

void draft_placement::set_layer(std::uint32_t layer, const layer_hosts& hosts) {
  clear_layer(layer);
  for (std::uint32_t expert = 0; expert < hosts.size(); ++expert)
    if (!is_pinned(layer, expert))
      for (auto host : hosts[expert])
        add(host, layer, expert);
}

} // namespace troupe
