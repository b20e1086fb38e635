#include "services/startup/exit_deadline.hpp"

#include <string>
#include <thread>

#include <unistd.h>

namespace troupe {

void exit_within(std::chrono::milliseconds time, const process_log& log) {
  std::thread([time, log] {
    std::this_thread::sleep_for(time);
    log.line("stop-late", "something has not ended within " + std::to_string(time.count())
                              + " ms, such as a write to a disk that hangs: this process ends without it");
    _exit(1);
  }).detach();
}

} // namespace troupe
