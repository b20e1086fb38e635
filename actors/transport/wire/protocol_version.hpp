// Which versions of the protocol this program speaks.
#pragma once

#include "actors/transport/wire/version_range.hpp"

namespace troupe::wire {

/// The versions of everything below the messages: records, handshake, frames, how structures are written. It
/// is raised by each release that changes one of them, and the oldest one is dropped once no release that
/// speaks it is upgraded from any more. Peers whose ranges overlap work together; messages have versions of
/// their own (message_kind.hpp). docs/decisions/0024-rolling-upgrades.md has the rules.
version_range protocol_versions();

} // namespace troupe::wire
