// Whether the functions that stand in front of UCX's do anything but pass the call on. One for the process,
// as they are.
#pragma once

namespace troupe::wire {

/// Call it before UCX is used.
void let_repairs_act(bool act) noexcept;

bool repairs_act() noexcept;

} // namespace troupe::wire
