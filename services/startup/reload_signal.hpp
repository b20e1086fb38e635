// Reloads files at SIGHUP or when they change: API keys and their limits, certificates, the cluster's
// secrets.
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

#include "services/log/process_log.hpp"

namespace troupe {

/// Blocks SIGHUP for the calling thread and all threads started later, and waits for it in its own thread.
/// Construct it in main() before any other thread starts: SIGHUP ends a process in which some thread does not
/// block it.
class reload_signal {
 public:
  /// Keeps a callback registered; must not outlive the reload_signal.
  using registration = std::shared_ptr<void>;

  explicit reload_signal(process_log log);
  ~reload_signal();
  reload_signal(const reload_signal&) = delete;
  reload_signal& operator=(const reload_signal&) = delete;

  /// Calls `again` at each SIGHUP on this object's thread; callbacks run one after another in the order of
  /// registration. An exception is logged as `reload-failed`, and the next callback runs. Thread-safe.
  /// @returns the registration; releasing it waits for a call in progress, so no callback may release its own
  [[nodiscard]] registration add(std::function<void()> again);

  /// Calls `told` after each SIGHUP on this object's thread, with whether no callback threw. A later `told`
  /// replaces it. Thread-safe.
  void tell(std::function<void(bool good)> told);

  /// The state of a file at some time.
  struct watched_file {
    std::filesystem::path path;
    std::string stamp; ///< of inode, size and last change; empty: no such file
  };

  /// The present state of files, for `watch`. Call it before reading the files, so that no change is missed.
  static std::vector<watched_file> look_at(const std::vector<std::filesystem::path>& files);

  /// From now on also reloads when one of `files` was written, replaced, removed, or its link was changed, as
  /// in a mounted Secret of Kubernetes. Checks every `interval`. A failed reload is repeated when a file
  /// changes again. Thread-safe; a further call adds files and replaces the interval.
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
