// Greedy placement that separates experts which are busy at the same time.
//
// "Towards MoE Deployment", section VII.B, Anti-correlation Balancing. Let a be the expert to place, and S_am
// the Pearson correlation of experts a and m over the recorded batches. The device load that greedy balancing
// compares, sum of P_mn A_m, becomes sum of P_mn (A_m + 0.5 S_am). A_m is a share of the layer's load. Pure.
#pragma once

#include <cstdint>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// A positive load is divided by the host's speed. Required replicas follow at the end (complete).
draft_placement anticorrelated_placement(const planning_problem& problem);

/// The same for one layer whose experts are not placed yet.
void place_anticorrelated(draft_placement& draft, std::uint32_t layer);

/// [experts, experts] correlation of the experts' shares of their layer over the windows, weighted by window;
/// 0 for an expert that does not vary.
std::vector<double> expert_correlations(const planning_problem& problem, std::uint32_t layer);

} // namespace troupe
