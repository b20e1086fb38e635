// The LEASE KEEPER: renews the scheduler's lease and raises its term, so that the scheduler never waits for a
// disk.
#pragma once

#include <cstdint>
#include <memory>

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/scheduler/scheduler_lease.hpp"

namespace troupe {

/// The LEASE KEEPER interface, local only. Both fail with ec::stale_term when another scheduler has taken
/// over, which the error names, and with ec::engine_failed when the state directory cannot be used.
using lease_keeper_actor = caf::typed_actor<
    // Renews the lease.
    caf::replies_to<caf::tick_atom>::with<void>,
    // Takes the term above this one, durably, and answers with the term that it has now.
    caf::replies_to<caf::update_atom, std::uint64_t>::with<std::uint64_t>>;

/// Holds the lease until it ends. On a thread of its own, except under a test scheduler.
lease_keeper_actor spawn_lease_keeper(caf::actor_system& system, std::unique_ptr<scheduler_lease> lease);

} // namespace troupe
