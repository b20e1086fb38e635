// Ends a process whose device has failed.
#pragma once

#include "actors/engine/device_loss.hpp"
#include "services/log/process_log.hpp"

namespace troupe {

/// The function that engines call when their device is lost. Its first call logs `device-lost` and raises a
/// fault (`stop_signal::raise_fault`), so that the process ends with status 1 and its supervisor restarts it.
device_loss_report end_for_lost_device(const process_log& log);

} // namespace troupe
