// What a placement would cost, by the recorded windows. Pure; written for reading, the search adds up by
// parts.
//
// For layer l, window w, host h and its experts e with R_e replicas each, among which load divides evenly:
//   load(l, w, h)  = sum of work_e(w) / R_e / speed_h                       work_e: planning_problem
//   busiest        = sum over l of E_w[max over h of load(l, w, h)]
//   messages       = sum over l of E_w[sum over h of 1 - exp(-sum of rows_e(w) / R_e)]   hosts that a step
//   touches step_ns        = busiest + message_ns x messages
// and a move costs what planner_costs says of each expert that a host has to load. "Towards MoE Deployment",
// section VII, judges by max_share (Max Load) and mean_max_share (Avg Max Load). Pure.
#pragma once

#include <cstdint>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

struct placement_score {
  double busiest_ns = 0; ///< of a step: the busiest host of each layer, expected, summed over layers
  double messages = 0;   ///< of a step: hosts touched, summed over layers
  double step_ns = 0;
  /// What busiest_ns would be if each layer's work were even over all hosts, by their speed.
  double even_ns = 0;
  /// Share of a layer's load on its busiest host, mean over layers: expected, and the most in any window.
  double mean_max_share = 0;
  double max_share = 0;
  uint64_t loads = 0;       ///< experts that hosts have to load
  uint64_t bytes_moved = 0; ///< of these
  double load_cost_ns = 0;  ///< spread over the steps of the horizon

  /// What is minimised, in ns a step.
  double total_ns() const { return step_ns + load_cost_ns; }
};

placement_score score(const draft_placement& draft);

} // namespace troupe
