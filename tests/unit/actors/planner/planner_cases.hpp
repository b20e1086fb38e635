// Inputs for the planner's tests: small ones by hand, and clusters by seed.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/planner/draft_placement.hpp"
#include "actors/planner/plan.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {

/// One layer, hosts 1, 2, ... with room for `slots` experts each; load is rows, and nothing else has a cost.
inline planner_input balance_case(std::vector<std::vector<float>> windows, std::uint64_t num_hosts,
                                  std::uint32_t slots) {
  planner_input input;
  input.present = {expert_table<worker_id>(windows.at(0).size())};
  input.expert_bytes = {1};
  for (std::uint64_t id = 1; id <= num_hosts; ++id)
    input.workers.push_back({{id}, slots});
  for (auto& rows : windows)
    input.history.windows.push_back({{std::move(rows)}, 1, 1});
  input.costs = {.expert_ns = 0, .row_ns = 1, .message_ns = 0, .load_ns_per_byte = 0, .load_ns = 0};
  return input;
}

/// A random cluster, equal for equal seeds on every machine: different hosts, some gone, drained or pinned;
/// there is room for every expert.
inline planner_input random_case(std::uint32_t seed) {
  dice random{seed};
  planner_input input;
  const auto num_hosts = 2 + random.below(7);
  const auto num_layers = 1 + random.below(4);
  const bool has_bytes = random.below(3) == 0;
  std::uint64_t num_experts = 0;
  for (std::uint32_t layer = 0; layer < num_layers; ++layer) {
    const auto experts = random.below(6) == 0 ? 0 : 4 + random.below(13); // some layers are dense
    input.present.emplace_back(experts);
    input.expert_bytes.push_back(100);
    num_experts += experts;
  }
  for (std::uint32_t id = 1; id <= num_hosts; ++id) {
    planner_worker worker{{id * 10}};
    const auto slots = num_experts / num_hosts + 1 + random.below(12);
    if (has_bytes)
      worker.memory_bytes = slots * 100 + random.below(100);
    else
      worker.max_experts = slots;
    worker.speed = 0.5 + random.below(4) * 0.5;
    input.workers.push_back(worker);
  }
  if (num_hosts > 3 && random.below(2) == 0) {
    input.constraints.drained.insert({10});
    for (auto& worker : input.workers) { // the others can hold what it leaves
      worker.max_experts += worker.max_experts < 1'000 ? num_experts / 2 : 0;
      worker.memory_bytes += worker.memory_bytes < 1'000'000 ? num_experts * 50 : 0;
    }
  }
  input.constraints.min_replicas = 1 + random.below(2);
  input.constraints.max_replicas = 2 + random.below(3);
  const auto random_host = [&] {
    return worker_id{10 * (1 + std::uint64_t{random.below(num_hosts + 2)})};
  }; // two are gone
  for (auto& experts : input.present)
    for (auto& hosts : experts)
      for (auto count = random.below(3); count > 0; --count)
        hosts.push_back(random_host());
  for (std::uint32_t pin = 0; pin < random.below(3); ++pin) {
    const auto layer = random.below(num_layers);
    if (!input.present[layer].empty())
      input.constraints.pins.push_back(
          {{layer, random.below(static_cast<std::uint32_t>(input.present[layer].size()))}, {{20}}});
  }
  for (std::uint32_t window = 0; window < 1 + random.below(6); ++window) {
    auto& added = input.history.windows.emplace_back();
    added.weight = 1 + random.below(3);
    added.num_steps = 1 + random.below(4);
    for (const auto& experts : input.present) {
      auto& rows = added.rows.emplace_back();
      for (std::size_t expert = 0; expert < experts.size(); ++expert)
        rows.push_back(static_cast<float>(random.below(3) == 0 ? random.below(100) : random.below(10)));
    }
  }
  input.costs.horizon_steps = 1 + random.below(10'000);
  input.costs.row_ns = random.below(5'000);
  return input;
}

/// The placement after the plan; unchanged experts stay.
inline expert_table<std::vector<worker_id>> carried_out(const planner_input& input,
                                                        const placement_plan& planned) {
  auto result = input.present;
  for (auto& experts : result)
    for (auto& hosts : experts)
      std::sort(hosts.begin(), hosts.end());
  for (const auto& change : planned.changes)
    result.at(change.expert.layer).at(change.expert.index) = change.hosts;
  return result;
}

} // namespace troupe
