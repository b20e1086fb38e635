// Experts in order of their index, so many on each host: what is done where nothing has been measured.
//
// ExpertFlow, section 3.3: "The most naive sorting algorithm can simply assign experts to blocks using each
// expert's index". The baseline of "Towards MoE Deployment", section VII. Pure.
#pragma once

#include "actors/planner/draft_placement.hpp"

namespace troupe {

/// Host 0 gets the first experts of each layer, host 1 the next, each its share by what it can hold
/// (layer_quota). Replicas that are asked for come afterwards (complete). Looks at no activations.
draft_placement static_placement(const planning_problem& problem);

} // namespace troupe
