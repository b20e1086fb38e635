// How fast those who wait for a place get one, and so how much may wait. Pure: time is a parameter.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "actors/scheduler/member_table.hpp"

namespace troupe {

/// Measures tokens of KV cache that are given away a second, over the time in which somebody waits. Old
/// seconds count less: half after as long as a request may wait. Before a tenth of the longest wait is
/// measured there is no limit, since many short requests at once are served soon; then as much may wait as is
/// given away in four fifths of it, so that few wait in vain, and never less than those hold that have a
/// place, since long answers end late.
class queue_rate {
 public:
  /// @param longest_wait  for a place; 0: any
  explicit queue_rate(std::chrono::milliseconds longest_wait) : longest_wait_(longest_wait) {}

  std::chrono::milliseconds longest_wait() const { return longest_wait_; }

  /// Called at least once a `defaults::scheduler_tick` while somebody waits. @param given  tokens, just now
  /// @param is_waiting  whether somebody still waits
  void observe(time_point now, uint64_t given, bool is_waiting);

  /// Tokens that may wait so that the last of them has its place within the longest wait; nothing: any.
  /// @param held  tokens of those that have a place
  std::optional<uint64_t> most_waiting(uint64_t held) const;

 private:
  std::chrono::milliseconds longest_wait_;
  std::optional<time_point> waiting_since_; ///< since when somebody has waited that is not counted yet
  double seconds_ = 0;
  double tokens_ = 0;
};

} // namespace troupe
