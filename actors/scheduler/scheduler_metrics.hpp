// What the scheduler reports about itself; the service turns it into metrics and log lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "actors/protocol/cluster_messages.hpp"
#include "actors/protocol/error.hpp"
#include "actors/protocol/request_context.hpp"

namespace troupe {

/// Why a worker was fenced: told that it is dead to the cluster, and to join again as new.
enum class fence_reason : std::uint8_t {
  lease,     ///< its actor has not renewed the lease
  engine,    ///< its engine hangs, as it has reported
  unanswered ///< other workers have heard nothing from it
};

inline const char* to_string(fence_reason reason) {
  switch (reason) {
  case fence_reason::lease:
    return "lease";
  case fence_reason::engine:
    return "engine";
  case fence_reason::unanswered:
    break;
  }
  return "unanswered";
}

/// Something an operator should read.
struct operator_event {
  const char* name = ""; ///< stable, such as "worker-joined"
  std::string text;      ///< a sentence
};

struct worker_counts {
  std::size_t gateways = 0;
  std::size_t attention = 0;
  std::size_t experts = 0;
};

/// Called on the actor's thread: an implementation counts or hands over and returns, it neither blocks nor
/// throws. This one does nothing.
struct scheduler_metrics {
  virtual ~scheduler_metrics() = default;

  /// Once, before anything else: what may wait. @param max_queued  requests; 0: as many as fit
  virtual void on_bounds(std::uint64_t /*max_queued_bytes*/, std::size_t /*max_queued*/) {}

  /// Requests that wait for a place, the memory that they take, and requests that have a place.
  virtual void on_requests(std::size_t /*num_queued*/, std::uint64_t /*queued_bytes*/,
                           std::size_t /*num_placed*/) {}

  /// The KV caches of all attention workers together, in tokens.
  struct memory {
    std::uint64_t reserved = 0; ///< set aside for requests that have a place
    std::uint64_t used = 0;     ///< as last reported by the workers
    std::uint64_t capacity = 0;
    std::uint32_t likely_new_tokens = 0; ///< that are reserved for a request without a limit
  };

  virtual void on_memory(const memory& /*now*/) {}

  /// The numbers of members, whenever they change; workers that are leaving are not counted.
  virtual void on_workers(const worker_counts& /*now*/) {}

  /// A request got its place after waiting this long in the queue.
  virtual void on_admitted(std::chrono::nanoseconds /*waited*/) {}

  virtual void on_refused(ec /*code*/) {}

  virtual void on_published(const placement& /*experts*/, bool /*ready*/) {}

  /// Experts that no worker has memory for, whenever that changes.
  virtual void on_room(std::size_t /*num_without*/) {}

  virtual void on_fenced(fence_reason /*reason*/) {}

  /// Something an operator should read: a stable name ("worker-joined"), then a sentence.
  virtual void on_event(const char* /*name*/, const std::string& /*text*/) {}

  /// A step of one request.
  virtual void on_request(const request_event& /*step*/) {}
};

} // namespace troupe
