// The REBALANCER: decides when experts change their hosts, by what they have been used for and by what
// operators say, and sees it through. An actor of its own beside the scheduler, so that neither liveness nor
// admission waits for a plan.
//
//   history ──windows──► rebalancer ──task──► planning worker
//   scheduler ──fleet──►     │
//             ◄──expert move─┘   one at a time for each host, answered when everybody knows of it
//
// A change that is interrupted, by whatever dies, leaves every expert served: each move ends by itself or is
// taken back by the scheduler, and the rest is planned again from what there is then.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/history/history.hpp"
#include "actors/rebalancer/planning_task.hpp"
#include "actors/rebalancer/rebalance_policy.hpp"
#include "actors/rebalancer/rebalancer_messages.hpp"
#include "actors/scheduler/scheduler.hpp"

namespace troupe {

struct rebalancer_metrics; // rebalancer_metrics.hpp

/// The REBALANCER interface.
using rebalancer_actor = caf::typed_actor<
    // An operator's word. Answers with what it does, or would do, when that is planned; a change then goes on
    // by itself. Fails with ec::bad_request (it makes no sense, or there is no room) and ec::not_ready (no
    // placement yet, or another change is under way), saying what to do.
    caf::replies_to<placement_command>::with<placement_change>,
    // What it is doing.
    caf::replies_to<status_atom>::with<rebalancer_status>,
    // Look whether anything is to be done (local only).
    caf::reacts_to<caf::tick_atom>>;

struct rebalancer_config {
  bool is_automatic = true; ///< else only operators' words change anything
  planning_settings planning{};
  rebalance_limits limits{};
  std::string state_dir{}; ///< where standing orders are kept; empty: they end with the process
  /// Whether another scheduler has taken the state directory over; may be empty, and may throw.
  std::function<bool()> is_deposed{};
  std::shared_ptr<rebalancer_metrics> metrics{}; ///< may be null
};

/// Reads the standing orders, so it blocks. A damaged file is told of, and orders begin empty.
/// @errors throws `std::runtime_error` when the state directory cannot be used
rebalancer_actor spawn_rebalancer(caf::actor_system& system, fleet_actor fleet, history_actor history,
                                  rebalancer_config config);

} // namespace troupe
