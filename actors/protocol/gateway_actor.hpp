// Messages that the GATEWAY takes.
#pragma once

#include <cstdint>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/admission_messages.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"

namespace troupe {

/// The GATEWAY interface.
using gateway_actor = caf::typed_actor<
    // A session wants a place: forwarded to the scheduler; waits up to defaults::scheduler_away while it is
    // away.
    caf::replies_to<admission_request>::with<assignment>,
    // A session is over (or wants another worker): its place is free.
    caf::reacts_to<done_atom, request_id>,
    // As above, with the number of tokens of the answer (the mean, if it has several choices).
    caf::reacts_to<done_atom, request_id, std::uint32_t>,
    // A session has heard nothing from its worker for N milliseconds (more than defaults::engine_stall). It
    // repeats this at each defaults::session_tick while the silence lasts. The renewals of this gateway then
    // complain of that worker.
    caf::reacts_to<silent_atom, request_id, std::uint64_t>,
    // The handle of an attention worker; fails with ec::peer_down.
    caf::replies_to<caf::resolve_atom, worker_address>::with<caf::strong_actor_ptr>,
    // Workers and placement changed (from the member actor).
    caf::reacts_to<cluster_view>,
    // The scheduler was found, or lost (empty handle) (from the member actor).
    caf::reacts_to<scheduler_atom, caf::strong_actor_ptr>,
    // Requests held for an absent scheduler have waited long enough (local only).
    caf::reacts_to<caf::tick_atom>,
    // The hello with which this gateway joins.
    caf::replies_to<caf::join_atom>::with<worker_hello>,
    // The load now.
    caf::replies_to<load_atom>::with<lease_renewal>,
    // The last view; whether the scheduler has been away for so long (defaults::scheduler_away) that new
    // requests are refused; and whether any view was ready since this actor started.
    caf::replies_to<caf::get_atom>::with<cluster_view, bool, bool>>;

} // namespace troupe
