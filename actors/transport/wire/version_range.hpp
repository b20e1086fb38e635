// Versions that somebody can deal with: of the protocol, or of one kind of message.
#pragma once

#include <cstdint>
#include <string>

namespace troupe::wire {

/// All versions from the oldest to the newest, both included.
struct version_range {
  std::uint16_t oldest = 1;
  std::uint16_t newest = 1;

  /// True when some version lies in both: the two sides understand each other.
  constexpr bool overlaps(const version_range& other) const {
    return oldest <= other.newest && other.oldest <= newest;
  }

  friend bool operator==(const version_range&, const version_range&) = default;
};

/// "version 9", or "versions 9 to 10".
inline std::string to_string(const version_range& x) {
  if (x.oldest == x.newest)
    return "version " + std::to_string(x.newest);
  return "versions " + std::to_string(x.oldest) + " to " + std::to_string(x.newest);
}

} // namespace troupe::wire
