// Watches the free space on the disk of the scheduler's state directory.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "services/metrics/registry.hpp"

namespace troupe::metrics {

/// Reads a directory's file system periodically and sets `state_directory_free_bytes` and
/// `state_directory_size_bytes`. It has a thread of its own, so that a hung disk delays neither scrapes nor
/// probes; the figures then keep their values.
class state_disk_watch {
 public:
  state_disk_watch(std::string directory, std::shared_ptr<registry> families,
                   std::chrono::milliseconds pause = std::chrono::seconds{15});
  /// Waits at most a second for a read under way.
  ~state_disk_watch();
  state_disk_watch(const state_disk_watch&) = delete;
  state_disk_watch& operator=(const state_disk_watch&) = delete;

 private:
  struct shared;
  std::shared_ptr<shared> shared_; ///< with the thread, which may outlive this object
  std::thread thread_;
};

} // namespace troupe::metrics
