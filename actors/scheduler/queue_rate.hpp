// How fast waiting requests get places, and so how much may wait. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "actors/scheduler/member_table.hpp"

namespace troupe {

/// Measures the KV tokens that are given to requests each second, while requests wait. Old seconds count
/// less: half after the longest wait. There is no limit before a tenth of the longest wait is measured,
/// because many short requests at once are served soon. After that, as much may wait as is given in four
/// fifths of the longest wait, so that few wait in vain. The limit is never below what the placed requests
/// hold, because long answers end late.
class queue_rate {
 public:
  /// @param longest_wait  for a place; 0: no limit
  explicit queue_rate(std::chrono::milliseconds longest_wait) : longest_wait_(longest_wait) {}

  std::chrono::milliseconds longest_wait() const { return longest_wait_; }

  /// Call at least once per `defaults::scheduler_tick` while requests wait.
  /// @param given       tokens that were given just now
  /// @param is_waiting  whether requests still wait
  void observe(time_point now, std::uint64_t given, bool is_waiting);

  /// Tokens that may wait so that the last of them has its place within the longest wait; empty: no limit.
  /// @param held  tokens of the requests that have a place
  std::optional<std::uint64_t> most_waiting(std::uint64_t held) const;

 private:
  std::chrono::milliseconds longest_wait_;
  std::optional<time_point> waiting_since_; ///< begin of the waiting that is not counted yet
  double seconds_ = 0;
  double tokens_ = 0;
};

} // namespace troupe
