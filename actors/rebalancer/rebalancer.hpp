// The REBALANCER: decides when experts change their hosts, by their use and by operators' commands, and
// carries the changes out. An actor of its own beside the scheduler, so that neither liveness nor admission
// waits for a plan.
//
//    history ──windows──► rebalancer ──task──► planning worker
//    scheduler ──fleet──►     │
//              ◄──expert move─┘   one at a time for each host, answered when all workers know of it
//
// If any process dies during a change, every expert stays served: each move ends by itself or is undone by
// the scheduler, and the rest is planned again from the resulting placement.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/history_actor.hpp"
#include "actors/protocol/rebalancer_actor.hpp"
#include "actors/protocol/rebalancer_messages.hpp"
#include "actors/protocol/scheduler_actor.hpp"
#include "actors/rebalancer/planning_task.hpp"
#include "actors/rebalancer/rebalance_policy.hpp"
#include "actors/rebalancer/wanted_workers.hpp"

namespace troupe {

struct rebalancer_metrics; // rebalancer_metrics.hpp

struct rebalancer_config {
  bool is_automatic = true; ///< false: only operators' commands cause changes
  planning_settings planning{};
  rebalance_limits limits{};
  wanted_workers_limits wanted{};
  std::string state_dir{}; ///< where standing orders are saved; empty: they end with the process
  /// Whether another scheduler has taken over the state directory; may be empty, and may throw.
  std::function<bool()> is_deposed{};
  std::shared_ptr<rebalancer_metrics> metrics{}; ///< may be null
};

/// Reads the standing orders, so it blocks. A damaged file is reported, and orders begin empty.
/// @throws std::runtime_error  the state directory cannot be used
rebalancer_actor spawn_rebalancer(caf::actor_system& system, fleet_actor fleet, history_actor history,
                                  rebalancer_config config);

} // namespace troupe
