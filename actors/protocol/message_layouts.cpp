// The only place where messages are written and read field by field, so that senders compile just a call.
#include "actors/protocol/admission_layout.hpp"
#include "actors/protocol/cluster_layout.hpp"
#include "actors/protocol/define_inspect.hpp"
#include "actors/protocol/encoded_once_layout.hpp"
#include "actors/protocol/expert_layout.hpp"
#include "actors/protocol/generation_layout.hpp"
#include "actors/protocol/history_layout.hpp"
#include "actors/protocol/ids_layout.hpp"
#include "actors/protocol/rebalancer_layout.hpp"
#include "actors/protocol/request_context_layout.hpp"
#include "actors/protocol/role_layout.hpp"
#include "actors/protocol/status_layout.hpp"
#include "actors/protocol/trace_layout.hpp"
#include "actors/protocol/view_layout.hpp"
#include "actors/protocol/weights_layout.hpp"

namespace troupe {

TROUPE_DEFINE_INSPECT(request_id)
TROUPE_DEFINE_INSPECT(worker_id)
TROUPE_DEFINE_INSPECT(expert_id)
TROUPE_DEFINE_INSPECT(sequence_id)

TROUPE_DEFINE_INSPECT(request_context)

TROUPE_DEFINE_INSPECT(biased_token)
TROUPE_DEFINE_INSPECT(sampling_params)
TROUPE_DEFINE_INSPECT(generation_request)
TROUPE_DEFINE_INSPECT(token_logprob)
TROUPE_DEFINE_INSPECT(generated_token)
TROUPE_DEFINE_INSPECT(token_update)
TROUPE_DEFINE_INSPECT(sequence_failed)

TROUPE_DEFINE_INSPECT(held_place)
TROUPE_DEFINE_INSPECT(gateway_terms)
TROUPE_DEFINE_INSPECT(attention_terms)
TROUPE_DEFINE_INSPECT(expert_terms)
TROUPE_DEFINE_INSPECT(role_terms)
TROUPE_DEFINE_INSPECT(complaint)
TROUPE_DEFINE_INSPECT(gateway_load)
TROUPE_DEFINE_INSPECT(attention_load)
TROUPE_DEFINE_INSPECT(expert_work)
TROUPE_DEFINE_INSPECT(expert_load)
TROUPE_DEFINE_INSPECT(role_load)

TROUPE_DEFINE_INSPECT(worker_address)
TROUPE_DEFINE_INSPECT(engine_progress)
TROUPE_DEFINE_INSPECT(worker_hello)
TROUPE_DEFINE_INSPECT(expert_hosts)
TROUPE_DEFINE_INSPECT(layer_placement)
TROUPE_DEFINE_INSPECT(layer_placement_ptr)
TROUPE_DEFINE_INSPECT(placement)
TROUPE_DEFINE_INSPECT(cluster_view)
TROUPE_DEFINE_INSPECT(weight_source)
TROUPE_DEFINE_INSPECT(host_order)
TROUPE_DEFINE_INSPECT(host_report)
TROUPE_DEFINE_INSPECT(lease_renewal)

TROUPE_DEFINE_INSPECT(expert_host_status)
TROUPE_DEFINE_INSPECT(attention_status)
TROUPE_DEFINE_INSPECT(worker_status)
TROUPE_DEFINE_INSPECT(scheduler_status)

TROUPE_DEFINE_INSPECT(trace_command)
TROUPE_DEFINE_INSPECT(trace_answer)
TROUPE_DEFINE_INSPECT(trace_receipt)

TROUPE_DEFINE_INSPECT(changed_layer)
TROUPE_DEFINE_INSPECT(view_change)
TROUPE_DEFINE_INSPECT(worker_welcome)

TROUPE_DEFINE_INSPECT(expert_batch)
TROUPE_DEFINE_INSPECT(expert_result)

TROUPE_DEFINE_INSPECT(weights_read)
TROUPE_DEFINE_INSPECT(weights_chunk)

TROUPE_DEFINE_INSPECT(activation_report)
TROUPE_DEFINE_INSPECT(activation_receipt)
TROUPE_DEFINE_INSPECT(history_window)
TROUPE_DEFINE_INSPECT(history_snapshot)

TROUPE_DEFINE_INSPECT(named_hosts)
TROUPE_DEFINE_INSPECT(placement_command)
TROUPE_DEFINE_INSPECT(predicted_step)
TROUPE_DEFINE_INSPECT(expert_change)
TROUPE_DEFINE_INSPECT(placement_change)
TROUPE_DEFINE_INSPECT(change_progress_status)
TROUPE_DEFINE_INSPECT(rebalancer_status)

TROUPE_DEFINE_INSPECT(prefix_landmark)
TROUPE_DEFINE_INSPECT(admission_request)
TROUPE_DEFINE_INSPECT(assignment)

template class encoded_once<view_change>;
template caf::error inspect(caf::serializer&, const shared_view_change&);
template caf::error inspect(caf::deserializer&, shared_view_change&);
template std::string to_string(const shared_view_change&);

} // namespace troupe
