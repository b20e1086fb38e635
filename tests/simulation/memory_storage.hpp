// Disk of a simulated scheduler, or of several that share it: the state that outlives their processes, and
// the lease.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <caf/actor_system.hpp>

#include "actors/scheduler/scheduler_storage.hpp"
#include "tests/simulation/agenda.hpp"

namespace troupe::simulation {

struct scheduler_disk {
  std::uint64_t term = 0; ///< of the lease's holder; 0: no process has had it yet
  time_point touched{};
  std::optional<stored_cluster> stored{};
};

/// Takes the lease in a term above those of all earlier holders, and spawns the actors that keep it and a
/// scheduler's state on `disk`. They fail with ec::stale_term once another one has taken it.
scheduler_storage spawn_memory_storage(caf::actor_system& system, const std::shared_ptr<scheduler_disk>& disk,
                                       const agenda& time);

} // namespace troupe::simulation
