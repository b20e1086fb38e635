// The kinds of messages between actors, with the versions of their layouts.
#pragma once

#include <vector>

#include "actors/transport/wire/message_kind.hpp"

namespace troupe {

/// All kinds, in the order of type_ids.hpp: what a process announces to its peers. A kind is at version 1
/// unless message_kinds.cpp lists it. tests/unit/actors/message_layouts.txt holds the layouts of all readable
/// versions; the test beside it fails for a layout that changed without its version.
std::vector<wire::message_kind> message_kinds();

} // namespace troupe
