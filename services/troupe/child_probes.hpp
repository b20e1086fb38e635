// Finds child processes that hang, by periodic requests for /health.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <sys/types.h>

namespace troupe {

struct probe_limits {
  std::chrono::milliseconds interval{5000}; ///< between two requests to one child
  std::chrono::milliseconds patience{5000}; ///< for an answer
  std::uint32_t failures = 3;               ///< consecutive failures that make a child count as hung
};

/// Limits by which a child counts as hung after failing for about `hung_after`.
probe_limits limits_for(std::chrono::seconds hung_after);

/// Sends its requests from its own thread, which starts with the first child. Thread-safe.
class child_probes {
 public:
  /// @param on_hung  called on that thread, once per `watch`, with the reason why the last request failed
  child_probes(probe_limits limits,
               std::function<void(const std::string& name, pid_t pid, const std::string& why)> on_hung);
  /// Ends all requests; `on_hung` is not called afterwards.
  ~child_probes();
  child_probes(const child_probes&) = delete;
  child_probes& operator=(const child_probes&) = delete;

  /// Probes this process from now on, and no longer the previous process of the name.
  /// @param address  HOST:PORT of plain HTTP, the host a numeric address
  void watch(const std::string& name, pid_t pid, const std::string& address);

  /// Call when the process has ended.
  void forget(const std::string& name);

 private:
  class asker;
  std::unique_ptr<asker> asker_;
};

} // namespace troupe
