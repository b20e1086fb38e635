// The timeline of this process: what its threads do, and when, for those requests that are traced. Off until
// somebody who keeps the events has opened it and it is started; then each event costs some 50 ns.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "actors/request_context.hpp"
#include "actors/timeline/event.hpp"
#include "actors/timeline/ring_pool.hpp"

namespace troupe::timeline {

namespace detail {
extern std::atomic<bool> is_on;
} // namespace detail

/// Whether anything is recorded now. One relaxed load.
inline bool is_on() {
  return detail::is_on.load(std::memory_order_relaxed);
}

/// The steady clock, which stamps all events. Not for decisions: actors have their own clock.
inline uint64_t now_ns() {
  return static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

/// As now_ns(), of a time that was taken before.
inline uint64_t ns_of(std::chrono::steady_clock::time_point at) {
  return static_cast<uint64_t>(at.time_since_epoch().count());
}

/// The key of a request if it is traced now, and 0 otherwise: what every site asks first.
uint64_t key_if_traced(const request_context& request);

/// Writes down what a key means, in each process that takes the request up.
/// @param request_number  its request_id; 0: not known here
void name_request(uint64_t key, const request_context& request, uint64_t request_number);

/// Writes an event, or drops it. @threads any
void record(const event& what, std::string_view text = {});

/// Something that concerns the whole cluster, as it is logged.
void note(std::string_view name, std::string_view text);

/// What a thread does from its construction to its end; nothing where it is not traced.
class span {
 public:
  /// @param id  0: it is not traced
  span(event_kind kind, uint64_t id) : span(kind, id, id != 0) {}

  span(event_kind kind, uint64_t id, bool is_traced) {
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

  std::array<uint64_t, 8>& args() { return what_.args; }

 private:
  event what_;
};

// ---------------------------------------------------------------------------------------------------------------
// For whoever keeps the events

/// Makes the rings, once; nothing is recorded yet. @threads one, before others record
ring_pool& open(size_t num_rings = 64, size_t records_per_ring = 4096);

/// Nothing is recorded any more, whoever asks. @param why  for those who do
void close(const std::string& why);

/// Traces this share of the requests, and those that want it; 0: stops.
/// @returns why it cannot; empty: it does
std::string start(double share);

/// Waits until `start` is called, or `wake`, or something has happened since `seen`. @returns what to pass
uint64_t await_change(uint64_t seen);
void wake();

} // namespace troupe::timeline
