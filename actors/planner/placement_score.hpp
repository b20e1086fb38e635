// The cost of a placement, by the recorded windows. Written for reading; the search computes it
// incrementally. Pure.
//
// For layer l, window w, and host h with experts e that have R_e replicas each, which share the load evenly:
//  load(l, w, h)  = sum of work_e(w) / R_e / speed_h                        work_e: planning_problem
//  busiest        = sum over l of E_w[max over h of load(l, w, h)]
//  messages       = sum over l of E_w[sum over h of 1 - exp(-sum of rows_e(w) / R_e)]   hosts touched
//  step_ns        = busiest + message_ns x messages
// A move costs, for each expert that a host must load, what planner_costs says. "Towards MoE Deployment",
// section VII, judges by max_share (Max Load) and mean_max_share (Avg Max Load).
#pragma once

#include <cstdint>

#include "actors/planner/draft_placement.hpp"

namespace troupe {

struct placement_score {
  double busiest_ns = 0; ///< expected time of each layer's busiest host, summed over layers
  double messages = 0;   ///< hosts that a step touches, summed over layers
  double step_ns = 0;
  /// busiest_ns if each layer's work were even over all hosts, by their speed.
  double even_ns = 0;
  /// Share of a layer's load on its busiest host, mean over layers: expected, and maximal over windows.
  double mean_max_share = 0;
  double max_share = 0;
  std::uint64_t loads = 0;       ///< experts that hosts must load
  std::uint64_t bytes_moved = 0; ///< size of these experts
  double load_cost_ns = 0;       ///< divided by the steps of the horizon

  /// The minimised cost, in ns per step.
  double total_ns() const { return step_ns + load_cost_ns; }
};

placement_score score(const draft_placement& draft);

} // namespace troupe
