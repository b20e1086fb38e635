// The PLANNING WORKER: does the rebalancer's slow work, planning and saving standing orders, on a thread of
// its own.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/rebalancer/planning_task.hpp"
#include "actors/rebalancer/standing_orders.hpp"

namespace troupe {

using planning_task_ptr = std::shared_ptr<const planning_task>;
using planning_answer_ptr = std::shared_ptr<const planning_answer>;
using standing_orders_ptr = std::shared_ptr<const standing_orders>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::planning_task_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::planning_answer_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::standing_orders_ptr)

namespace troupe {

/// The PLANNING WORKER interface, local only.
using planning_worker_actor = caf::typed_actor<
    // Plans. Fails with ec::engine_failed; the text has the reason.
    caf::replies_to<planning_task_ptr>::with<planning_answer_ptr>,
    // Saves the orders durably if there is a store. Fails with ec::engine_failed (the text has file and
    // reason) and ec::stale_term (a successor owns the state directory).
    caf::replies_to<caf::put_atom, standing_orders_ptr>::with<void>>;

/// Runs on a thread of its own, except under a test scheduler.
/// @param store  none: orders end with the process
/// @param is_deposed  whether another scheduler has taken over; called before the file is written; may be
/// empty, and may throw
planning_worker_actor spawn_planning_worker(caf::actor_system& system, const planning_settings& settings,
                                            std::optional<standing_orders_store> store,
                                            std::function<bool()> is_deposed);

} // namespace troupe
