// Places experts in order of their index, N on each host: the strategy without measurements.
//
// ExpertFlow, section 3.3: "The most naive sorting algorithm can simply assign experts to blocks using each
// expert's index". The baseline of "Towards MoE Deployment", section VII. Pure.
#pragma once

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Host 0 gets the first experts of each layer, host 1 the next, each a share by its capacity (layer_quota).
/// Required replicas follow at the end (complete). Ignores activations.
draft_placement static_placement(const planning_problem& problem);

} // namespace troupe
