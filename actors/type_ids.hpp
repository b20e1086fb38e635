// The type ids and atoms of all messages between actors. Ids travel on the wire: append only.
#pragma once

#include <memory>
#include <utility>

#include <caf/actor_system_config.hpp>
#include <caf/type_id.hpp>

#include "actors/attention/generation_messages.hpp"
#include "actors/cluster/cluster_messages.hpp"
#include "actors/cluster/status_messages.hpp"
#include "actors/engine/engine.hpp"
#include "actors/error.hpp"
#include "actors/expert/expert_messages.hpp"

namespace troupe {

/// Local only: an attention step that is complete, with its micro-batch.
struct attention_step_done {
  micro_batch_ptr batch;
  attention_result result;
};

/// Local only: an expert step that is complete.
struct expert_step_done {
  uint64_t step = 0; ///< the host's name for it
  expert_step_result result;
};

/// Local only: a change of the hosted experts that is complete.
struct expert_load_done_message {
  uint64_t order = 0;
  expert_load_result result;
};

using attention_step_ptr = std::shared_ptr<attention_step_done>;
using expert_step_ptr = std::shared_ptr<expert_step_done>;
using expert_load_ptr = std::shared_ptr<expert_load_done_message>;

/// A sequence that its attention worker cannot run (any more); worker to session.
struct sequence_failed {
  sequence_id id;
  uint32_t attempt = 0;
  ec code = ec::none;
  std::string text;
  bool operator==(const sequence_failed&) const = default;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, sequence_failed& x) {
  return f(caf::meta::type_name("sequence_failed"), x.id, x.attempt, x.code, x.text);
}

} // namespace troupe

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
  CAF_ADD_ATOM(troupe_actors, troupe, cancel_atom, "cancel")
  CAF_ADD_ATOM(troupe_actors, troupe, done_atom, "done")
  CAF_ADD_ATOM(troupe_actors, troupe, drain_atom, "drain")
  CAF_ADD_ATOM(troupe_actors, troupe, fence_atom, "fence")
  CAF_ADD_ATOM(troupe_actors, troupe, linger_atom, "linger")
  CAF_ADD_ATOM(troupe_actors, troupe, load_atom, "load")
  CAF_ADD_ATOM(troupe_actors, troupe, scheduler_atom, "scheduler")
  CAF_ADD_ATOM(troupe_actors, troupe, status_atom, "status")
  CAF_ADD_ATOM(troupe_actors, troupe, stop_atom, "stop")
CAF_END_TYPE_ID_BLOCK(troupe_actors)

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::attention_step_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_step_ptr)
CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::expert_load_ptr)

namespace troupe {

/// Registers all message types (the transport's too) and the rendering of errors, and sets what every process
/// of the cluster needs of CAF (the sharing scheduler: the stealing one sleeps between polls).
void configure(caf::actor_system_config& config);

} // namespace troupe
