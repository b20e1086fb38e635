// The interface that starts and stops tracing while a cluster runs.
#pragma once

#include <caf/replies_to.hpp>
#include <caf/typed_actor.hpp>

#include "actors/protocol/atoms.hpp"
#include "actors/protocol/trace_messages.hpp"

namespace troupe {

/// The TRACE CONTROL interface, understood by member and scheduler actors beside their own. A member obeys
/// for its process. The scheduler obeys for its own process and commands all members, present ones and those
/// that join later.
using trace_control_actor = caf::typed_actor<
    // Answers with the result of each process, within defaults::local_request for each hop.
    caf::replies_to<trace_command>::with<trace_receipt>>;

} // namespace troupe
