// One question to the planner: turns fleet, history and orders into a planner's input, and its result into an
// answer. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/planner/plan.hpp"
#include "actors/protocol/fleet_messages.hpp"
#include "actors/protocol/history_messages.hpp"
#include "actors/protocol/rebalancer_messages.hpp"
#include "actors/rebalancer/change_steps.hpp"
#include "actors/rebalancer/standing_orders.hpp"

namespace troupe {

/// Settings that all plans share.
struct planning_settings {
  /// Extra copies, as a share of the required ones, if no memory limit determines their number.
  double spare_copies = 0.25;
  /// A row's time on a host, as a share of an expert's fixed time: streaming its weights takes as long as
  /// computing some 32 rows.
  double row_share = 1.0 / 32;
  std::size_t max_windows = 64;              ///< most recent windows to use
  std::uint64_t max_evaluations = 2'000'000; ///< about a second
};

struct planning_task {
  enum class goal : std::uint8_t {
    look,   ///< judge the present placement
    search, ///< find what gains more than it costs
    obey,   ///< the least changes that the orders require
    assign  ///< exactly `wanted`
  };

  goal what = goal::look;
  fleet_ptr hosts;
  history_snapshot history;
  standing_orders orders;
  std::function<double(worker_id)> speed;  ///< of a host; 1 is the median
  double ns_per_run = 0;                   ///< measured; 0: unknown
  std::vector<expert_target> wanted;       ///< for assign
  std::optional<expert_id> exact_replicas; ///< for obey: this expert has no more copies than ordered
};

struct planning_answer {
  placement_score before;
  placement_score after;
  std::vector<placement_step> steps; ///< from the present placement to the plan
  std::uint64_t bytes = 0;           ///< size of the experts that hosts must load
  std::uint64_t moves = 0;           ///< experts that hosts must load
  std::string flaw;                  ///< why there is no plan; empty: there is one
};

planning_answer carry_out(const planning_task& task, const planning_settings& settings);

/// Room of the hosts beyond their targets; hosts without a limit are left out.
std::map<worker_id, std::uint64_t> room_of(const fleet& hosts);

predicted_step predicted(const placement_score& score);

} // namespace troupe
