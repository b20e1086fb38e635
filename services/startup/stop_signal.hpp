// Waits for SIGTERM and SIGINT.
#pragma once

#include <chrono>
#include <stdexcept>

namespace troupe {

/// A stop signal interrupted work that was not finished.
class interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Stop signals within this time after the first are the same request.
inline constexpr std::chrono::milliseconds stop_repeat{250};

/// Blocks SIGTERM and SIGINT for the calling thread and all threads started later, and ignores SIGPIPE;
/// construct it first in main().
class stop_signal {
 public:
  stop_signal();

  /// Blocks until one of them arrives. A second one ends the process at once, unless it comes within
  /// `stop_repeat`: `timeout` and terminals send the same request twice.
  /// @returns the signal: SIGINT comes from a person at a terminal
  int wait();

  /// True once a signal is pending (it has arrived and wait() has not taken it), so that slow start-up can
  /// abort. False where no stop_signal has been made.
  static bool is_pending() noexcept;

  /// Makes wait() return, from any thread, after a fault that prevents further service.
  static void raise_fault() noexcept;

  /// The exit status after wait(): 0, or 1 after a fault.
  static int exit_status() noexcept;
};

} // namespace troupe
