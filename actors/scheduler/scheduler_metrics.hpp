// What the scheduler tells about itself as it works; the service turns it into metrics and log lines.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "actors/cluster/cluster_messages.hpp"
#include "actors/error.hpp"
#include "actors/request_context.hpp"

namespace troupe {

/// Why a worker was fenced: told that it is dead to the cluster, and to join again as new.
enum class fence_reason : uint8_t {
  lease,     ///< its actor has not renewed the lease
  engine,    ///< its engine hangs, by its own word
  unanswered ///< others have heard nothing from it
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

struct worker_counts {
  size_t gateways = 0;
  size_t attention = 0;
  size_t experts = 0;
};

/// Called on the actor's thread: an implementation counts or hands over and returns, it neither blocks nor
/// throws.
struct scheduler_metrics {
  virtual ~scheduler_metrics() = default;

  /// Once, before anything else: what may wait. @param max_queued  requests; 0: as many as fit
  virtual void on_bounds(uint64_t /*max_queued_bytes*/, size_t /*max_queued*/) {}

  /// Requests that wait for a place, the memory they take, and requests that have one.
  virtual void on_requests(size_t num_queued, uint64_t queued_bytes, size_t num_placed) = 0;

  /// The KV caches of all attention workers together, in tokens.
  struct memory {
    uint64_t reserved = 0; ///< set aside for requests that have a place
    uint64_t used = 0;     ///< as the workers have last said
    uint64_t capacity = 0;
    uint32_t likely_new_tokens = 0; ///< for which a request without a limit is set room aside
  };

  virtual void on_memory(const memory& /*now*/) {}

  /// Who is in the cluster, whenever that changes; those that are leaving are not counted.
  virtual void on_workers(const worker_counts& /*now*/) {}

  /// A request got its place after waiting so long in the queue.
  virtual void on_admitted(std::chrono::nanoseconds waited) = 0;
  virtual void on_refused(ec code) = 0;
  virtual void on_published(const placement& experts, bool ready) = 0;
  virtual void on_fenced(fence_reason reason) = 0;
  /// Something an operator should read: a stable name ("worker-joined"), then a sentence.
  virtual void on_event(const char* name, const std::string& text) = 0;

  /// A step of one request.
  virtual void on_request(const request_event& /*step*/) {}
};

} // namespace troupe
