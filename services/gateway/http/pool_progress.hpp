// How the work on the threads of the pool goes on.
#pragma once

#include <chrono>
#include <optional>

namespace troupe::http {

struct pool_progress {
  using time_point = std::chrono::steady_clock::time_point;

  std::optional<time_point> running_since; ///< of the jobs that run, the one that began first
  std::optional<time_point> waiting_since; ///< of those that wait, the one that came first
  time_point last_end;                     ///< when the last one ended; at first, when the pool began
};

} // namespace troupe::http
