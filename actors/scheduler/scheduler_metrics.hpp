// What the scheduler tells about itself as it works; the service turns it into metrics and log lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/error.hpp"

namespace troupe {

/// Called on the actor's thread: an implementation counts or hands over and returns, it neither blocks nor
/// throws.
struct scheduler_metrics {
  virtual ~scheduler_metrics() = default;
  /// Requests that wait for a place, and that have one.
  virtual void on_requests(size_t num_queued, size_t num_placed) = 0;
  /// A request got its place after waiting so long in the queue.
  virtual void on_admitted(std::chrono::nanoseconds waited) = 0;
  virtual void on_refused(ec code) = 0;
  virtual void on_published(const placement& experts, bool ready) = 0;
  /// Something an operator should read: a stable name ("worker-joined"), then a sentence.
  virtual void on_event(const char* name, const std::string& text) = 0;
};

} // namespace troupe
