// From what was measured to the experts that should change their hosts. Pure: nothing is sent, nothing is
// set.
//
// Whoever carries a plan out calls placement_target::set_hosts(change.expert, change.hosts) for each change.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "actors/planner/local_search.hpp"
#include "actors/planner/placement_score.hpp"
#include "actors/planner/planner_input.hpp"

namespace troupe {

enum class planner_strategy { fixed, greedy, anticorrelated, replicated, search };

std::string_view to_string(planner_strategy strategy);

struct planner_settings {
  planner_strategy strategy = planner_strategy::search;
  search_settings search;
};

struct placement_plan {
  std::vector<expert_target> changes; ///< ascending by expert
  std::vector<expert_id> unplaced;    ///< for which nobody has room
  /// Predicted of what there is, made good as far as constraints ask (repaired), and of the plan.
  placement_score before;
  placement_score after;
  search_result search; ///< with planner_strategy::search
};

/// The other strategies place everything anew. The search starts from what there is and makes a change only
/// where it gains more within the horizon than its loads cost; what constraints ask, it does at any cost:
/// lost experts, drained or overfull hosts, pins, missing replicas.
placement_plan plan(const planner_input& input, const planner_settings& settings = {});

/// What there is, with the least that makes it valid: surplus and impossible copies gone, missing ones
/// placed.
draft_placement repaired(const planning_problem& problem);

} // namespace troupe
