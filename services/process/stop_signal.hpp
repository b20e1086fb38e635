// SIGTERM and SIGINT as something to wait for.
#pragma once

#include <chrono>
#include <stdexcept>

namespace troupe {

/// Whoever was asked to stop was not done yet.
class interrupted : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Signals to stop that come so soon behind the first are the same request.
inline constexpr std::chrono::milliseconds stop_repeat{250};

/// Blocks SIGTERM and SIGINT for the calling thread and all threads started later, and ignores SIGPIPE;
/// construct it first in main().
class stop_signal {
 public:
  stop_signal();

  /// Blocks until one of them arrives. A second one ends the process at once, unless it comes within
  /// `stop_repeat`: `timeout` and terminals send the same request twice.
  /// @returns which it was: SIGINT comes from a person at a terminal
  int wait();

  /// True once a signal is pending (it has arrived and wait() has not taken it), so that slow start-up can
  /// abort. False where no stop_signal has been made.
  static bool is_pending() noexcept;

  /// Makes wait() return, from any thread: for a fault that leaves nothing to serve.
  static void raise_fault() noexcept;

  /// What main() returns behind wait(): 0, or 1 after a fault, so that a supervisor knows the difference.
  static int exit_status() noexcept;
};

} // namespace troupe
