// The interface of the SCHEDULER actor, towards workers, sessions and planners of placements.
#pragma once

#include <cstdint>
#include <string>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/admission_messages.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/fleet_messages.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/protocol/view_messages.hpp"

namespace troupe {

/// The SCHEDULER interface.
using scheduler_actor = caf::typed_actor<
    // A worker joins; the sender is its MEMBER. Fails with ec::incompatible (another model, or another
    // numerics class than the workers of its role; the text has both). Fails with ec::not_ready, and the
    // worker may retry, while its engine hangs, while a live worker elsewhere has its name, or when it has
    // seen a newer term, which this scheduler then exceeds.
    caf::replies_to<caf::join_atom, worker_hello>::with<worker_welcome>,
    // A worker's sign of life.
    caf::reacts_to<lease_renewal>,
    // A worker missed a change of the view: answers with the whole view for its role. Fails with
    // ec::not_ready when the worker is unknown.
    caf::replies_to<view_atom, worker_id>::with<shared_view_change>,
    // A worker leaves in order. Answers when no expert and no request depends on it, which may be never: the
    // worker has a deadline. Fails with ec::cancelled (asked again) and ec::shutting_down.
    caf::replies_to<caf::leave_atom, worker_id>::with<void>,
    // May this request run, where, and how many of its choices at the same time? Waits in a bounded queue by
    // priority, then arrival. Fails with ec::overloaded (queue full, or too long a wait expected),
    // ec::context_exceeded (never fits), ec::not_ready (no worker in time), ec::deadline_exceeded,
    // ec::bad_request (it asks for nothing), ec::cancelled (taken back, or made again), ec::shutting_down.
    caf::replies_to<admission_request>::with<assignment>,
    // The request is over: its place is free.
    caf::reacts_to<done_atom, request_id>,
    // Likewise, with the tokens that it got (the mean of several answers), which predict the next answers'
    // length.
    caf::reacts_to<done_atom, request_id, std::uint32_t>,
    // Leases and deadlines (local only).
    caf::reacts_to<caf::tick_atom>,
    // Reports of workers have been gathered long enough (local only).
    caf::reacts_to<gather_atom>,
    // Everything, for /cluster.
    caf::replies_to<status_atom>::with<scheduler_status>>;

/// The scheduler's further interface, for planners in its process.
using fleet_actor = caf::typed_actor<
    // The expert hosts and what they should hold. Without layers while planning makes no sense: there is no
    // placement yet, or the scheduler recovers.
    caf::replies_to<fleet_atom>::with<fleet_ptr>,
    // Moves one expert; answers when exactly the wanted hosts serve it. Fails with ec::not_ready (the
    // scheduler recovers), ec::cancelled (the move does not fit the present placement, or a host was lost)
    // and ec::engine_failed (a host could not load it); the expert then stays served where it can be.
    caf::replies_to<expert_move_ptr>::with<void>,
    // The workers that must hold nothing, present or not.
    caf::reacts_to<drained_ptr>,
    // Activity of the experts by the history: where room is short, the busiest experts come first.
    caf::reacts_to<expert_activity_ptr>>;

} // namespace troupe
