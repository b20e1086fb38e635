// The GATEWAY actor: what the sessions of one gateway process share: the way to the scheduler, the view of
// the cluster, and handles of attention workers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/directory.hpp"
#include "actors/cluster/status_messages.hpp"
#include "actors/history/history_messages.hpp"
#include "actors/rebalancer/rebalancer_messages.hpp"
#include "actors/scheduler/admission_messages.hpp"

namespace troupe {

/// The GATEWAY interface.
using gateway_actor = caf::typed_actor<
    // A session wants a place: forwarded to the scheduler; waits up to defaults::scheduler_away while it is
    // away.
    caf::replies_to<admission_request>::with<assignment>,
    // A session is over (or wants another worker): its place is free.
    caf::reacts_to<done_atom, request_id>,
    // A session is over, with so many tokens, an answer of several on average.
    caf::reacts_to<done_atom, request_id, uint32_t>,
    // A session has heard nothing from its worker for so many milliseconds (more than
    // defaults::engine_stall); it says so again at each defaults::session_tick until it does. The renewals of
    // this gateway complain of that worker.
    caf::reacts_to<silent_atom, request_id, uint64_t>,
    // The handle of an attention worker; fails with ec::peer_down.
    caf::replies_to<caf::resolve_atom, worker_address>::with<caf::strong_actor_ptr>,
    // Workers and placement changed (from the member actor).
    caf::reacts_to<cluster_view>,
    // The scheduler was found, or lost (empty handle) (from the member actor).
    caf::reacts_to<scheduler_atom, caf::strong_actor_ptr>,
    // Requests held for an absent scheduler have waited long enough (local only).
    caf::reacts_to<caf::tick_atom>,
    // What the worker says of itself when it joins.
    caf::replies_to<caf::join_atom>::with<worker_hello>,
    // The load now.
    caf::replies_to<load_atom>::with<lease_renewal>,
    // The last view, for /ready and /cluster, and whether the scheduler has been away for so long
    // (defaults::scheduler_away) that new requests are refused; its own words are fetched with status_atom.
    caf::replies_to<caf::get_atom>::with<cluster_view, bool>,
    // The scheduler's status, passed on.
    caf::replies_to<status_atom>::with<scheduler_status>,
    // The activation history with at most so many windows, passed on. Fails with ec::not_ready.
    caf::replies_to<history_atom, uint32_t>::with<history_snapshot>,
    // An operator's word on the placement, passed on to the rebalancer once. Fails as that does, with
    // ec::not_ready when it cannot be reached, and with ec::deadline_exceeded or ec::peer_down when it has
    // been asked and gave no answer: then the command may have been carried out all the same.
    caf::replies_to<placement_command>::with<placement_change>,
    // What the rebalancer is doing, passed on. Fails with ec::not_ready.
    caf::replies_to<placement_atom>::with<rebalancer_status>>;

struct gateway_config {
  worker_address address;
  std::vector<std::string>
      scheduler_endpoints{}; ///< where history and rebalancer are found; empty: in this process
  directory_actor directory;
  /// Called on the actor's thread when the longest context of the cluster is known, and when it changes; not
  /// when the last attention worker goes, since one like it will come. May be empty.
  std::function<void(uint32_t max_model_len)> on_context;
};

gateway_actor spawn_gateway(caf::actor_system& system, gateway_config config);

} // namespace troupe
