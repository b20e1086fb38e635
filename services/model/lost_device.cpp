#include "services/model/lost_device.hpp"

#include <atomic>
#include <memory>
#include <string>

#include "services/startup/stop_signal.hpp"

namespace troupe {

device_loss_report end_for_lost_device(const process_log& log) {
  return [log, is_told = std::make_shared<std::atomic<bool>>(false)](const std::exception& error) {
    if (is_told->exchange(true))
      return; // each later step fails likewise
    log.line(
        "device-lost",
        std::string{error.what()}
            + "; the GPU computes nothing more in this process, which ends so that another one is started");
    stop_signal::raise_fault();
  };
}

} // namespace troupe
