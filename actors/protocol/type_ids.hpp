// Registers all messages between actors. Senders and handlers of a message include its own header instead. A
// renamed message is another kind. message_kinds.hpp has the versions.
#pragma once

#include <caf/detail/type_list.hpp>
#include <caf/fwd.hpp>

#include "actors/protocol/admission_messages.hpp"
#include "actors/protocol/atoms.hpp"
#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/expert_messages.hpp"
#include "actors/protocol/generation_messages.hpp"
#include "actors/protocol/history_messages.hpp"
#include "actors/protocol/ids.hpp"
#include "actors/protocol/rebalancer_messages.hpp"
#include "actors/protocol/status_messages.hpp"
#include "actors/protocol/trace_messages.hpp"
#include "actors/protocol/view_messages.hpp"
#include "actors/protocol/weights_messages.hpp"

namespace troupe {

using message_blocks = caf::detail::type_list<
    caf::id_block::troupe_ids, caf::id_block::troupe_atoms, caf::id_block::troupe_generation,
    caf::id_block::troupe_expert, caf::id_block::troupe_weights, caf::id_block::troupe_cluster,
    caf::id_block::troupe_view, caf::id_block::troupe_status, caf::id_block::troupe_trace,
    caf::id_block::troupe_admission, caf::id_block::troupe_history, caf::id_block::troupe_rebalancer>;

/// Registers all message types (the transport's, too) and the rendering of errors, and configures CAF for
/// every process of the cluster (the sharing scheduler, because the stealing one sleeps between polls).
void configure(caf::actor_system_config& config);

} // namespace troupe
