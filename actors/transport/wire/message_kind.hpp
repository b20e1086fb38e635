// What a process tells its peers of the kinds of messages that it knows.
#pragma once

#include <string>

#include "actors/transport/wire/version_range.hpp"

namespace troupe::wire {

/// A kind of message, by the name that travels with each message of it. The newest version is the one that
/// this process writes. It reads all versions from the oldest on, and later ones whose own oldest version is
/// not above its newest: versions in between differ by fields at the end only.
struct message_kind {
  std::string name;
  version_range versions;

  friend bool operator==(const message_kind&, const message_kind&) = default;
};

} // namespace troupe::wire
