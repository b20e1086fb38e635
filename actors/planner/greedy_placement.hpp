// Experts by descending load, each to the host that has least.
//
// "Towards MoE Deployment", section VII.A, Greedy Balancing for Independent Activation: experts are sorted by
// their mean load A_m in the history and each is given to the device with the smallest sum of P_mn A_m; a
// device that has reached its capacity, the same number of experts for each, is no candidate any more. Pure.
#pragma once

#include <cstdint>
#include <limits>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Loads are divided by a host's speed. Replicas that are asked for come afterwards (complete).
draft_placement greedy_placement(const planning_problem& problem);

/// The same for one layer that has no experts yet.
/// @param most_hosts  the layer's degree of expert parallelism: over no more hosts than this
void place_greedily(draft_placement& draft, uint32_t layer,
                    uint32_t most_hosts = std::numeric_limits<uint32_t>::max());

} // namespace troupe
