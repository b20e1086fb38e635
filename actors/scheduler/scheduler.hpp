// The SCHEDULER decides which workers are in the cluster, where each request runs, and which worker holds
// which expert. It is not on the path of a token.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/admission_messages.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/defaults.hpp"
#include "actors/protocol/fleet_messages.hpp"
#include "actors/protocol/scheduler_actor.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/protocol/trace_control_actor.hpp"
#include "actors/protocol/view_messages.hpp"

namespace troupe {

struct scheduler_metrics; // scheduler_metrics.hpp

/// All that the scheduler actor understands.
using scheduler_interface = scheduler_actor::extend_with<fleet_actor>::extend_with<trace_control_actor>;

struct scheduler_config {
  std::uint64_t term = 1;               ///< higher than any earlier scheduler's of this cluster
  std::uint32_t num_replicas = 1;       ///< hosts per expert, where there are as many expert workers
  std::uint32_t min_expert_workers = 1; ///< that the first placement waits for
  std::uint64_t max_queued_bytes = defaults::max_queued_bytes; ///< of requests that wait for a place
  std::size_t max_num_queued_reqs =
      defaults::max_num_queued_reqs;           ///< likewise; 0: as many as fit into max_queued_bytes
  std::chrono::milliseconds max_queue_wait{0}; ///< of new requests; 0: no longer than their deadlines
  double admission_quantile = defaults::admission_quantile; ///< see `answer_lengths`; 1: reserve max_tokens
  bool allow_inexact = false;     ///< let workers of different numerics classes replace one another
  std::string name = "scheduler"; ///< for the lease
  std::string state_dir{};        ///< where term and placement are persisted; empty: nowhere
  std::shared_ptr<scheduler_metrics> metrics{}; ///< may be null
};

/// The same actor's other side. @param scheduler  of this process
fleet_actor fleet_of(const scheduler_actor& scheduler);

struct succession;        // succession.hpp
struct scheduler_storage; // scheduler_storage.hpp

/// With a state directory: as the successor of the scheduler that had it, which blocks while it is read.
/// @throws std::runtime_error  when the state directory cannot be used, or another scheduler has it
scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config);

/// As the successor of `from.lease`'s last holder, in its term. It ends with ec::stale_term as its exit
/// reason when another scheduler has taken over.
scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config, succession from);

/// With these actors to keep its state; tests have their own.
scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config,
                                scheduler_storage storage);

} // namespace troupe
