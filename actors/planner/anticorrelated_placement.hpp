// Greedy placement that keeps apart experts which are busy at the same time.
//
// "Towards MoE Deployment", section VII.B, Anti-correlation Balancing: where a is the expert to place and
// S_am the Pearson correlation of experts a and m over the recorded batches, the load of a device that greedy
// balancing compares, sum of P_mn A_m, becomes sum of P_mn (A_m + 0.5 S_am). A_m is a share of the layer's
// load. Pure.
#pragma once

#include <cstdint>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Divided by a host's speed where it is positive. Replicas that are asked for come afterwards (complete).
draft_placement anticorrelated_placement(const planning_problem& problem);

/// The same for one layer that has no experts yet.
void place_anticorrelated(draft_placement& draft, uint32_t layer);

/// [experts, experts] correlation of the experts' shares of their layer over the windows, by the windows'
/// weights; 0 where one of them does not vary.
std::vector<double> expert_correlations(const planning_problem& problem, uint32_t layer);

} // namespace troupe
