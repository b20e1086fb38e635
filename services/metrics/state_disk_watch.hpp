// Room on the disk of the scheduler's state directory.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Looks at the file system of a directory now and then, and sets `state_directory_free_bytes` and
/// `state_directory_size_bytes`. On a thread of its own, since a disk that hangs must hold up neither scrapes
/// nor probes; then the figures stay as they are.
class state_disk_watch {
 public:
  state_disk_watch(std::string directory, std::shared_ptr<registry> families,
                   std::chrono::milliseconds pause = std::chrono::seconds{15});
  /// Waits for a look that is under way, for a second at most.
  ~state_disk_watch();
  state_disk_watch(const state_disk_watch&) = delete;
  state_disk_watch& operator=(const state_disk_watch&) = delete;

 private:
  struct shared;
  std::shared_ptr<shared> shared_; ///< also the thread's, which may outlive this
  std::thread thread_;
};

} // namespace troupe::metrics
