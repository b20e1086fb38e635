// Ends a process whose device computes nothing any more.
#pragma once

#include "actors/engine/device_loss.hpp"
#include "services/process/process_log.hpp"

namespace troupe {

/// What engines call when their device is lost: the first time it logs `device-lost` and raises a fault
/// (`stop_signal::raise_fault`), so that the process ends with status 1 and its supervisor starts another
/// one.
device_loss_report end_for_lost_device(const process_log& log);

} // namespace troupe
