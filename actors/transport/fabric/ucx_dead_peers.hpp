// Repairs of UCX 1.13, which aborts when a peer dies while the two are connecting.
#pragma once

namespace troupe::wire {

/// True when the repairs are in place, which takes linker options besides (see CMakeLists.txt): UCX's
/// libraries must find our functions before their own.
bool dead_peers_are_survived();

} // namespace troupe::wire
