// Plans which experts should change their hosts, from measurements. Pure: nothing is sent or set.
//
// A plan is carried out by placement_target::set_hosts(change.expert, change.hosts) for each change.
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
  std::vector<expert_id> unplaced;    ///< without room anywhere
  /// Predicted scores of the present placement, after repairs that constraints require (repaired), and of the
  /// plan.
  placement_score before;
  placement_score after;
  search_result search; ///< set by planner_strategy::search
};

/// The other strategies place everything anew. The search starts from the present placement and makes a
/// change only if it gains more within the horizon than its loads cost. Required changes are made at any
/// cost: lost experts, drained or overfull hosts, pins, missing replicas.
placement_plan plan(const planner_input& input, const planner_settings& settings = {});

/// The present placement with the least changes that make it valid: surplus and impossible copies removed,
/// missing ones placed.
draft_placement repaired(const planning_problem& problem);

} // namespace troupe
