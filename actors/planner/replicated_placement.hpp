// Hot experts get replicas, then all replicas are packed.
//
// In the manner of DeepSeek's EPLB (github.com/deepseek-ai/EPLB, global load balancing; DeepSeek-V3, section
// 3.4, redundant experts): every place beyond one for each expert goes to the expert with the most load per
// replica so far; then replicas, by descending load, go to the device with the least load that has places
// left, each device having the same number. Unlike there, no two replicas of an expert share a host. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Each layer has its share of the places of all hosts.
draft_placement replicated_placement(const planning_problem& problem);

/// The same for one layer that has no experts yet, with so many places.
void place_replicated(draft_placement& draft, uint32_t layer, uint64_t num_places);

/// Places of the layer when each has its share of what hosts can hold; at least one for each expert.
uint64_t layer_places(const planning_problem& problem, uint32_t layer);

/// [experts] replicas that EPLB's rule gives.
/// @param work  [experts]
/// @param most  of one expert
std::vector<uint32_t> replica_counts(const std::vector<double>& work, uint64_t num_places, uint32_t least,
                                     uint32_t most);

} // namespace troupe
