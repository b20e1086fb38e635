// All messages between actors, for what registers them. Whoever sends or handles a message includes its own
// header. A message that is renamed is another kind. message_kinds.hpp has their versions.
#pragma once

#include <caf/detail/type_list.hpp>
#include <caf/fwd.hpp>

#include "actors/atoms.hpp"
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

namespace troupe {

using message_blocks = caf::detail::type_list<
    caf::id_block::troupe_ids, caf::id_block::troupe_atoms, caf::id_block::troupe_generation,
    caf::id_block::troupe_expert, caf::id_block::troupe_weights, caf::id_block::troupe_cluster,
    caf::id_block::troupe_view, caf::id_block::troupe_status, caf::id_block::troupe_trace,
    caf::id_block::troupe_admission, caf::id_block::troupe_history, caf::id_block::troupe_rebalancer>;

/// Registers all message types (the transport's too) and the rendering of errors, and sets what every process
/// of the cluster needs of CAF (the sharing scheduler: the stealing one sleeps between polls).
void configure(caf::actor_system_config& config);

} // namespace troupe
