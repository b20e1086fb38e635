// The types and atoms of all messages between actors. Names and atoms travel on the wire, ids do not: a kind
// of message may be added anywhere, and one that is renamed is another kind. message_kinds.hpp has their
// versions.
#pragma once

#include <caf/actor_system_config.hpp>
#include <caf/type_id.hpp>

#include "actors/attention/generation_messages.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/status_messages.hpp"
#include "actors/cluster/trace_messages.hpp"
#include "actors/cluster/view_messages.hpp"
#include "actors/expert/expert_messages.hpp"
#include "actors/expert/weights_messages.hpp"
#include "actors/history/history_messages.hpp"
#include "actors/ids.hpp"
#include "actors/rebalancer/rebalancer_messages.hpp"
#include "actors/scheduler/admission_messages.hpp"

// The transport's own block (actors/transport) takes the first 40 ids.
CAF_BEGIN_TYPE_ID_BLOCK(troupe_actors, caf::first_custom_type_id + 40)
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::request_id))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::worker_id))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::expert_id))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::sequence_id))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::generation_request))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::token_update))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::sequence_failed))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::expert_batch))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::expert_result))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::worker_address))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::worker_hello))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::worker_welcome))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::cluster_view))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::host_order))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::host_report))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::lease_renewal))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::admission_request))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::assignment))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::expert_host_status))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::attention_status))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::scheduler_status))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::shared_view_change))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::activation_report))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::activation_receipt))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::history_snapshot))
  CAF_ADD_ATOM(troupe_actors, troupe, cancel_atom, "cancel")
  CAF_ADD_ATOM(troupe_actors, troupe, done_atom, "done")
  CAF_ADD_ATOM(troupe_actors, troupe, fence_atom, "fence")
  CAF_ADD_ATOM(troupe_actors, troupe, gather_atom, "gather")
  CAF_ADD_ATOM(troupe_actors, troupe, linger_atom, "linger")
  CAF_ADD_ATOM(troupe_actors, troupe, load_atom, "load")
  CAF_ADD_ATOM(troupe_actors, troupe, scheduler_atom, "scheduler")
  CAF_ADD_ATOM(troupe_actors, troupe, status_atom, "status")
  CAF_ADD_ATOM(troupe_actors, troupe, stop_atom, "stop")
  CAF_ADD_ATOM(troupe_actors, troupe, silent_atom, "silent")
  CAF_ADD_ATOM(troupe_actors, troupe, view_atom, "view")
  CAF_ADD_ATOM(troupe_actors, troupe, history_atom, "history")
  CAF_ADD_ATOM(troupe_actors, troupe, fleet_atom, "fleet")
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::placement_command))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::placement_change))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::rebalancer_status))
  CAF_ADD_ATOM(troupe_actors, troupe, placement_atom, "placement")
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::weights_read))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::weights_chunk))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::trace_command))
  CAF_ADD_TYPE_ID(troupe_actors, (troupe::trace_receipt))
CAF_END_TYPE_ID_BLOCK(troupe_actors)

namespace troupe {

/// Registers all message types (the transport's too) and the rendering of errors, and sets what every process
/// of the cluster needs of CAF (the sharing scheduler: the stealing one sleeps between polls).
void configure(caf::actor_system_config& config);

} // namespace troupe
