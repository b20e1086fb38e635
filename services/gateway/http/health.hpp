// Whether the process can still do its work, for /health. A process that cannot should be replaced.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "services/gateway/http/pool_progress.hpp"

namespace boost::asio {
class io_context;
} // namespace boost::asio

namespace troupe::http {

/// Called on I/O threads: it uses no thread of the pool and never waits. Thread-safe once all loops are
/// watched.
class health {
 public:
  using clock = std::chrono::steady_clock;

  struct limits {
    std::chrono::milliseconds job;   ///< a text job that runs for longer is stuck
    std::chrono::milliseconds stall; ///< the pool is stuck if a job waits for longer and none has ended
    std::chrono::milliseconds late;  ///< an event loop that has not turned for longer is stuck
    std::chrono::milliseconds beat;  ///< interval at which a loop reports that it turns
  };

  /// @param pool  returns the state of the pool
  health(limits bounds, std::function<pool_progress()> pool,
         std::function<clock::time_point()> now = clock::now);
  /// Stops the beats of the loops.
  ~health();
  health(const health&) = delete;
  health& operator=(const health&) = delete;

  /// Watches an event loop from now on. The loop may end before or after this object.
  void watch(boost::asio::io_context& loop);

  /// The fault, in a sentence for operators; empty: none.
  std::string flaw() const;

 private:
  struct heart;

  const limits bounds_;
  const std::function<pool_progress()> pool_;
  const std::function<clock::time_point()> now_;
  std::vector<std::shared_ptr<heart>> hearts_;
};

} // namespace troupe::http
