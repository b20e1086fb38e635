// Whether the process can still do its work, which is what /health says. A process that cannot is to be
// replaced.
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

/// Asked on I/O threads: takes no thread of the pool, and waits for nothing. Thread-safe once all loops are
/// watched.
class health {
 public:
  using clock = std::chrono::steady_clock;

  struct limits {
    std::chrono::milliseconds job; ///< text work that has run for longer is stuck
    std::chrono::milliseconds
        stall;                      ///< work that waits longer, while none has ended, waits for what is stuck
    std::chrono::milliseconds late; ///< an event loop that has not turned for longer is stuck
    std::chrono::milliseconds beat; ///< how often a loop says that it turns
  };

  /// @param pool  how the text work goes on now
  health(limits bounds, std::function<pool_progress()> pool,
         std::function<clock::time_point()> now = clock::now);
  /// The loops beat no more.
  ~health();
  health(const health&) = delete;
  health& operator=(const health&) = delete;

  /// Has this event loop beat from now on. It may end before this object, or after it.
  void watch(boost::asio::io_context& loop);

  /// What is wrong, in a sentence for operators; empty: nothing.
  std::string flaw() const;

 private:
  struct heart;

  const limits bounds_;
  const std::function<pool_progress()> pool_;
  const std::function<clock::time_point()> now_;
  std::vector<std::shared_ptr<heart>> hearts_;
};

} // namespace troupe::http
