// State of the pool that does text work, as health checks and refusals need it.
#pragma once

#include <chrono>
#include <optional>
#include <stdexcept>

namespace troupe::http {

struct pool_progress {
  using time_point = std::chrono::steady_clock::time_point;

  std::optional<time_point> running_since; ///< start of the running job that has run longest
  std::optional<time_point> waiting_since; ///< arrival of the waiting job that has waited longest
  time_point last_end;                     ///< end of the last job; before any ended, start of the pool
};

/// The pool has no room for another job.
struct pool_too_busy : std::runtime_error {
  using std::runtime_error::runtime_error;
};

} // namespace troupe::http
