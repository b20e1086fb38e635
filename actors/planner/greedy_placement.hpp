// Places experts by descending load, each on the host with the least load.
//
// "Towards MoE Deployment", section VII.A, Greedy Balancing for Independent Activation: experts are sorted by
// their mean load A_m in the history, and each goes to the device with the smallest sum of P_mn A_m. All
// devices have the same capacity in experts; a full one is no candidate. Pure.
#pragma once

#include <cstdint>
#include <limits>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Loads are divided by the host's speed. Required replicas follow at the end (complete).
draft_placement greedy_placement(const planning_problem& problem);

/// The same for one layer whose experts are not placed yet.
/// @param most_hosts  the layer's degree of expert parallelism: the most hosts to use
void place_greedily(draft_placement& draft, std::uint32_t layer,
                    std::uint32_t most_hosts = std::numeric_limits<std::uint32_t>::max());

} // namespace troupe
