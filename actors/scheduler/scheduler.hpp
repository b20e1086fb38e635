// The SCHEDULER: who is in the cluster, which request runs where, which worker holds which expert. It is not
// on the path of a token.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/status_messages.hpp"
#include "actors/cluster/view_messages.hpp"
#include "actors/defaults.hpp"
#include "actors/scheduler/admission_messages.hpp"
#include "actors/scheduler/fleet_messages.hpp"

namespace troupe {

struct scheduler_metrics; // scheduler_metrics.hpp

/// The SCHEDULER interface.
using scheduler_actor = caf::typed_actor<
    // A worker joins; the sender is its MEMBER. Fails with ec::incompatible (another model, or another
    // numerics class than the workers of its role), saying both, and with ec::not_ready while its engine
    // hangs, a live worker elsewhere has its name, or it has seen a newer term, which is being exceeded: it
    // may ask again.
    caf::replies_to<caf::join_atom, worker_hello>::with<worker_welcome>,
    // A worker lives.
    caf::reacts_to<lease_renewal>,
    // A worker has missed a change of the view: all of it, for its role. Fails with ec::not_ready when the
    // worker is not here.
    caf::replies_to<view_atom, worker_id>::with<shared_view_change>,
    // A worker leaves in order; answers when no expert and no request depends on it any more, or at the
    // deadline.
    caf::replies_to<caf::leave_atom, worker_id>::with<void>,
    // May this request run, where, and how many of its choices at the same time? Waits in a bounded queue by
    // priority, then arrival. Fails with ec::overloaded (queue full, or it would wait too long),
    // ec::context_exceeded (never fits), ec::not_ready (no worker in time), ec::deadline_exceeded,
    // ec::bad_request (it asks for nothing), ec::cancelled (taken back, or made again), ec::shutting_down.
    caf::replies_to<admission_request>::with<assignment>,
    // The request is over: its place is free.
    caf::reacts_to<done_atom, request_id>,
    // Likewise, and it has got so many tokens, an answer of several on average: the next ones are expected to
    // be as long.
    caf::reacts_to<done_atom, request_id, uint32_t>,
    // Leases and deadlines (local only).
    caf::reacts_to<caf::tick_atom>,
    // What workers have told has been gathered for long enough (local only).
    caf::reacts_to<gather_atom>,
    // Everything, for /cluster.
    caf::replies_to<status_atom>::with<scheduler_status>>;

/// What else the scheduler answers, to whoever plans in its process.
using fleet_actor = caf::typed_actor<
    // The expert hosts and what they should hold. Without layers while nobody should plan: there is no
    // placement yet, or the scheduler recovers.
    caf::replies_to<fleet_atom>::with<fleet_ptr>,
    // Moves one expert; answers when it is served where it should be, and nowhere else. Fails with
    // ec::not_ready while the scheduler recovers, ec::cancelled when the move does not fit what is, or a host
    // was lost on the way, and ec::engine_failed when a host could not load it; then the expert stays served
    // wherever it can be.
    caf::replies_to<expert_move_ptr>::with<void>,
    // The workers that shall hold nothing, present or not.
    caf::reacts_to<drained_ptr>>;

struct scheduler_config {
  uint64_t term = 1;               ///< higher than any earlier scheduler's of this cluster
  uint32_t num_replicas = 1;       ///< hosts per expert, where there are as many expert workers
  uint32_t min_expert_workers = 1; ///< wait for so many before the first placement
  uint64_t max_queued_bytes = defaults::max_queued_bytes;     ///< of requests that wait for a place
  size_t max_num_queued_reqs = defaults::max_num_queued_reqs; ///< likewise; 0: as many as these bytes hold
  std::chrono::milliseconds max_queue_wait{0}; ///< of new requests; 0: no longer than their deadlines
  double admission_quantile = defaults::admission_quantile; ///< see `answer_lengths`; 1: set all aside
  bool allow_inexact = false;     ///< let workers of different numerics classes replace one another
  std::string name = "scheduler"; ///< for the lease
  std::string state_dir{};        ///< where term and placement are persisted; empty: nowhere
  std::shared_ptr<scheduler_metrics> metrics{}; ///< may be null
};

/// The same actor's other side. @param scheduler  of this process
fleet_actor fleet_of(const scheduler_actor& scheduler);

struct succession;        // succession.hpp
struct scheduler_storage; // scheduler_storage.hpp

/// With a state directory: as the successor of whoever had it, which blocks while it is read.
/// @errors throws `std::runtime_error` when the state directory cannot be used, or another scheduler has it
scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config);

/// As the successor of `from.lease`'s last holder, in its term. It ends with ec::stale_term as its exit
/// reason when another scheduler has taken over.
scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config, succession from);

/// With actors that keep its state, which the tests can be.
scheduler_actor spawn_scheduler(caf::actor_system& system, scheduler_config config,
                                scheduler_storage storage);

} // namespace troupe
