// Experts that no worker has loaded and that only workers without the model's files should hold. Pure.
#pragma once

#include <map>
#include <vector>

#include "actors/scheduler/member_table.hpp"
#include "actors/scheduler/placement_rollout.hpp"
#include "actors/scheduler/placement_target.hpp"

namespace troupe {

class weight_rescue {
 public:
  /// Gives each such expert to the worker with files that should hold the fewest. Once the expert is loaded
  /// there, it goes where a planner wanted it, or may move again.
  /// @returns whether the target has changed
  bool update(const member_table& members, const placement_rollout& rollout, placement_target& target);

 private:
  std::map<expert_id, std::vector<worker_id>> rescued_; // hosts that a planner wants; empty: none
};

} // namespace troupe
