// How tracing is started and stopped while a cluster runs.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/atoms.hpp"
#include "actors/cluster/trace_messages.hpp"

namespace troupe {

/// The TRACE CONTROL interface: what member, scheduler and gateway actors understand beside their own. A
/// member obeys for its process, the scheduler for its own and all members, now and when they join; a gateway
/// passes it on to the scheduler.
using trace_control_actor = caf::typed_actor<
    // Answers with what each process has made of it, within defaults::local_request for each step of the way.
    // A gateway fails with ec::not_ready while the scheduler is away.
    caf::replies_to<trace_command>::with<trace_receipt>>;

} // namespace troupe
