// Gives hot experts replicas, then packs all replicas.
//
// Follows DeepSeek's EPLB (github.com/deepseek-ai/EPLB, global load balancing; DeepSeek-V3, section 3.4,
// redundant experts). Each place beyond one per expert goes to the expert with the most load per replica so
// far. Then replicas, by descending load, go to the device with the least load that has places left; all
// devices have the same number. Unlike EPLB, no two replicas of an expert share a host. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Each layer gets its share of the places of all hosts.
draft_placement replicated_placement(const planning_problem& problem);

/// The same for one layer whose experts are not placed yet, with N places.
void place_replicated(draft_placement& draft, std::uint32_t layer, std::uint64_t num_places);

/// Places of the layer if each layer has its share of the hosts' capacity; at least one per expert.
std::uint64_t layer_places(const planning_problem& problem, std::uint32_t layer);

/// [experts] replicas by EPLB's rule.
/// @param work  [experts]
/// @param most  most replicas of one expert
std::vector<std::uint32_t> replica_counts(const std::vector<double>& work, std::uint64_t num_places,
                                          std::uint32_t least, std::uint32_t most);

} // namespace troupe
