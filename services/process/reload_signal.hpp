// SIGHUP, or a changed file, as the order to read again what may change while a process serves: API keys and
// their limits, certificates.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <pthread.h>

#include "services/process/process_log.hpp"

namespace troupe {

/// Blocks SIGHUP for the calling thread and all threads started later, and waits for it in a thread of its
/// own. Construct it in main() before any other thread starts: SIGHUP ends a process in which some thread
/// does not block it.
class reload_signal {
 public:
  /// Keeps a callback registered; must not outlive the reload_signal.
  using registration = std::shared_ptr<void>;

  explicit reload_signal(process_log log);
  ~reload_signal();
  reload_signal(const reload_signal&) = delete;
  reload_signal& operator=(const reload_signal&) = delete;

  /// Calls `again` at each SIGHUP, on this object's thread, one callback after the other in the order in
  /// which they were added. What it throws is logged as `reload-failed`, and the next one is called.
  /// Thread-safe.
  /// @returns what keeps it: to release that waits for a call in progress, so no callback may release its own
  [[nodiscard]] registration add(std::function<void()> again);

  /// Calls `told` after each SIGHUP, on this object's thread, with whether no callback threw. One at a time:
  /// another one replaces it. Thread-safe.
  void tell(std::function<void(bool good)> told);

  /// A file as it was at some time.
  struct watched_file {
    std::filesystem::path path;
    std::string stamp; ///< of its place on disk, its size and its last change; empty: there was none
  };

  /// For `watch`, before the files are read: what changes between the two is noticed.
  static std::vector<watched_file> look_at(const std::vector<std::filesystem::path>& files);

  /// From now on also acts as at SIGHUP when one of `files` is another than it was: written, replaced,
  /// removed, or, where a link leads to it, as in a mounted Secret of Kubernetes, its link turned. Looks
  /// every `interval`. A reading that has failed is repeated when a file changes again. Thread-safe; another
  /// call replaces the files.
  void watch(std::vector<watched_file> files, std::chrono::milliseconds interval);

 private:
  void wait_for_signals();
  bool files_changed();
  void call_all();

  process_log log_;
  sigset_t previous_mask_{};
  std::mutex mutex_;
  std::list<std::function<void()>> callbacks_;
  std::function<void(bool good)> told_;
  std::vector<watched_file> files_;
  std::chrono::milliseconds interval_{0}; ///< 0: no file is watched
  std::atomic<bool> begins_to_watch_{false};
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

} // namespace troupe
