// One question to the planner: what is known of fleet, history and orders, made a planner's input, and what
// comes of it. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "actors/history/history_messages.hpp"
#include "actors/planner/plan.hpp"
#include "actors/rebalancer/change_steps.hpp"
#include "actors/rebalancer/rebalancer_messages.hpp"
#include "actors/rebalancer/standing_orders.hpp"
#include "actors/scheduler/fleet_messages.hpp"

namespace troupe {

/// What stays the same from one plan to the next.
struct planning_settings {
  /// Copies that may be made beyond what every expert needs, as a share of that, where no memory limit says
  /// how many fit.
  double spare_copies = 0.25;
  /// A row's time on a host, as a share of what an expert takes however few its rows are: streaming its
  /// weights takes as long as computing some 32 rows.
  double row_share = 1.0 / 32;
  size_t max_windows = 64;              ///< the most recent ones that are planned by
  uint64_t max_evaluations = 2'000'000; ///< about a second
};

struct planning_task {
  enum class goal : uint8_t {
    look,   ///< judge what there is
    search, ///< find what gains more than it costs
    obey,   ///< the least that the orders ask for
    assign  ///< exactly `wanted`
  };

  goal what = goal::look;
  fleet_ptr hosts;
  history_snapshot history;
  standing_orders orders;
  std::function<double(worker_id)> speed;  ///< of a host; 1 is the median
  double ns_per_run = 0;                   ///< measured; 0: not known
  std::vector<expert_target> wanted;       ///< assign
  std::optional<expert_id> exact_replicas; ///< obey: this expert has no more copies than it was said to
  bool with_growth = false;                ///< look: also what a worker more or fewer would do
};

struct planning_answer {
  placement_score before;
  placement_score after;
  std::vector<placement_step> steps; ///< from what there is to the plan
  uint64_t bytes = 0;                ///< that hosts have to load
  uint64_t moves = 0;                ///< experts that they have to load
  std::string flaw;                  ///< why there is no plan; empty: there is one
  /// Of a step's time: what one more worker would save, and what is lost without the least useful one.
  std::optional<double> gain_of_one_more;
  std::optional<double> loss_without_one;
};

planning_answer carry_out(const planning_task& task, const planning_settings& settings);

/// Room of the hosts beyond what they should hold; hosts without a limit are left out.
std::map<worker_id, uint64_t> room_of(const fleet& hosts);

predicted_step predicted(const placement_score& score);

} // namespace troupe
