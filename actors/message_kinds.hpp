// The kinds of messages between actors, with the versions of their layouts.
#pragma once

#include <vector>

#include "actors/transport/wire/message_kind.hpp"

namespace troupe {

/// All of them, by the order in type_ids.hpp: what a process tells its peers. A kind is at version 1 unless
/// the table in message_kinds.cpp says otherwise. tests/unit/actors/message_layouts.txt holds the layouts of
/// all versions that this program reads, and the test beside it refuses a layout that has changed while its
/// version has not.
std::vector<wire::message_kind> message_kinds();

} // namespace troupe
