// The PLACEMENT WRITER: writes to disk for the scheduler, which so never waits for a disk.
#pragma once

#include <memory>

#include <caf/allowed_unsafe_message_type.hpp>
#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/scheduler/cluster_store.hpp"

namespace troupe {

using stored_cluster_ptr = std::shared_ptr<const stored_cluster>;

} // namespace troupe

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(troupe::stored_cluster_ptr)

namespace troupe {

/// The PLACEMENT WRITER interface, local only.
using cluster_store_writer_actor = caf::typed_actor<
    // Makes the placement durable. Fails with ec::engine_failed, saying which file and why, and with
    // ec::stale_term when a successor has the state directory.
    caf::replies_to<caf::put_atom, stored_cluster_ptr>::with<void>>;

/// On a thread of its own, except under a test scheduler.
cluster_store_writer_actor spawn_cluster_store_writer(caf::actor_system& system, cluster_store store);

} // namespace troupe
