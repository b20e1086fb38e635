// The timeline of this process: the actions of its threads for traced requests, with times. Off until it is
// opened and started; then each event costs some 50 ns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "actors/protocol/request_context.hpp"
#include "actors/timeline/event.hpp"
#include "actors/timeline/ring_pool.hpp"

namespace troupe::timeline {

namespace detail {
extern std::atomic<bool> is_on;
} // namespace detail

/// Whether events are recorded now. One relaxed load.
inline bool is_on() {
  return detail::is_on.load(std::memory_order_relaxed);
}

/// The steady clock, which stamps all events. Not for decisions: actors have their own clock.
inline std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// As now_ns(), for an earlier time.
inline std::uint64_t ns_of(std::chrono::steady_clock::time_point at) {
  return static_cast<std::uint64_t>(at.time_since_epoch().count());
}

/// The key of a request if it is traced now, otherwise 0. Every place that records calls this first.
std::uint64_t key_if_traced(const request_context& request);

/// Records the meaning of a key, in each process that handles the request.
/// @param request_number  its request_id; 0: unknown here
void name_request(std::uint64_t key, const request_context& request, std::uint64_t request_number);

/// Records an event, or drops it.
/// @threads any
void record(const event& what, std::string_view text = {});

/// Records an event of the whole cluster, as it is logged.
void note(std::string_view name, std::string_view text);

/// Records the time from its construction to its end; nothing if not traced.
class span {
 public:
  /// @param id  0: not traced
  span(event_kind kind, std::uint64_t id) : span(kind, id, id != 0) {}

  span(event_kind kind, std::uint64_t id, bool is_traced) {
    if (!is_traced)
      return;
    what_.kind = kind;
    what_.id = id;
    what_.begin_ns = now_ns();
  }

  ~span() {
    if (what_.kind == event_kind::none)
      return;
    what_.duration_ns = now_ns() - what_.begin_ns;
    record(what_);
  }

  span(const span&) = delete;
  span& operator=(const span&) = delete;

  std::array<std::uint64_t, 8>& args() { return what_.args; }

 private:
  event what_;
};

// ---------------------------------------------------------------------------------------------------------------
// For the writer of trace files

/// Allocates the rings, once; nothing is recorded yet.
/// @threads one, before others record
ring_pool& open(std::size_t num_rings = 64, std::size_t records_per_ring = 4096);

/// Ends recording for good.
/// @param why  given to later callers of start
void close(const std::string& why);

/// Traces this share of the requests, and those that request it; 0: stops.
/// @returns why it cannot; empty: success
std::string start(double share);

/// Waits until `start` or `wake` is called, or was since `seen`.
/// @returns the next `seen`
std::uint64_t await_change(std::uint64_t seen);
void wake();

} // namespace troupe::timeline
