// What a simulated scheduler's disk keeps when its process ends.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include <caf/actor_system.hpp>

#include "actors/scheduler/scheduler_storage.hpp"

namespace troupe::simulation {

struct scheduler_disk {
  uint64_t term = 0;
  std::optional<stored_cluster> stored;
};

/// The actors that keep a scheduler's state on `disk`, in a term above that of all who had it before.
scheduler_storage spawn_memory_storage(caf::actor_system& system,
                                       const std::shared_ptr<scheduler_disk>& disk);

} // namespace troupe::simulation
