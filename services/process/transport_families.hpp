// What the transport of a process counts, as metric families.
#pragma once

#include "actors/transport/transport.hpp"
#include "services/metrics/registry.hpp"

namespace troupe {

/// Sums over all peers: series a peer would grow with the cluster on both sides.
/// @param peers  outlives whoever calls `families.text()`
/// @param window_bytes  what may be unacknowledged at one peer, in each lane
void show_transport(metrics::registry& families, const transport& peers, uint64_t window_bytes);

} // namespace troupe
