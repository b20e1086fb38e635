// Finds children that live but hang: asks each for /health, again and again.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

namespace troupe {

struct probe_limits {
  std::chrono::milliseconds interval{5000}; ///< between two questions to one child
  std::chrono::milliseconds patience{5000}; ///< for an answer
  uint32_t failures = 3;                    ///< so many in a row: it hangs
};

/// A thread of its own asks; it starts with the first child. Thread-safe.
class child_probes {
 public:
  /// @param on_hung  called on the thread, once for each `watch`, with what went wrong with the last question
  child_probes(probe_limits limits,
               std::function<void(const std::string& name, pid_t pid, const std::string& why)> on_hung);
  /// Asks no more; calls nothing any more.
  ~child_probes();
  child_probes(const child_probes&) = delete;
  child_probes& operator=(const child_probes&) = delete;

  /// Asks this process from now on, and no longer the one that had the name before.
  /// @param address  HOST:PORT of plain HTTP, the host a numeric address
  void watch(const std::string& name, pid_t pid, const std::string& address);

  /// The process has ended.
  void forget(const std::string& name);

 private:
  class asker;
  std::unique_ptr<asker> asker_;
};

} // namespace troupe
