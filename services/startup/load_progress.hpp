// Progress of packing or loading weights, for the log and the pages of a process.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>

#include "services/log/process_log.hpp"
#include "services/metrics/process_figures.hpp"

namespace troupe {

/// The current task and its bytes. Logs one line after a second, then one every ten seconds, and one at the
/// end. Thread-safe.
class load_progress {
 public:
  using clock = std::chrono::steady_clock;

  explicit load_progress(process_log log, std::function<clock::time_point()> now = clock::now);

  /// Begins a task; no effect while the same task runs.
  /// @param event  for the log: "packing-experts"
  /// @param what   for operators: "packing weights"
  void begin(const std::string& event, const std::string& what);

  /// @param bytes  done so far; the first call's were done before the task began
  /// @param total  0: unknown
  void reached(std::uint64_t bytes, std::uint64_t total);

  /// Ends the task.
  void end();

  /// "packing weights: 37 %, 33,300 of 90,000 MB, 112 MB/s"; empty without a task.
  std::string text() const;

  /// Bytes of the current or last task.
  metrics::load_bytes bytes() const;

 private:
  std::string figures() const;
  void tell();

  const process_log log_;
  const std::function<clock::time_point()> now_;
  mutable std::mutex mutex_;
  std::string event_; ///< empty: no task
  std::string what_;
  clock::time_point begun_;
  clock::time_point next_line_;
  bool is_told_ = false;
  bool has_first_ = false;
  std::uint64_t first_ = 0; ///< bytes that were done before the task began
  metrics::load_bytes amount_;
};

} // namespace troupe
