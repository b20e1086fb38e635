// A repair of UCX 1.13's TCP transport, which reads freed memory when a connection ends while it waits to
// write.
#pragma once

namespace troupe::wire {

/// True when the repair is in place, which takes a linker option besides (see CMakeLists.txt): UCX's
/// libraries must find our `ucs_event_set_wait` before their own.
bool events_are_ordered();

} // namespace troupe::wire
