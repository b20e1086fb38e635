// The actors that keep a scheduler's state on disk, and what the scheduler before has left there.
#pragma once

#include <optional>

#include "actors/scheduler/cluster_store.hpp"
#include "actors/scheduler/cluster_store_writer.hpp"
#include "actors/scheduler/lease_keeper.hpp"

namespace troupe {

struct scheduler_storage {
  std::optional<stored_cluster> stored; ///< by the scheduler before
  cluster_store_writer_actor writer{};  ///< null: nothing is saved
  lease_keeper_actor keeper{};          ///< null: there is no lease, and terms are not durable
};

} // namespace troupe
