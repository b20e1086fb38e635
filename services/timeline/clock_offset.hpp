// Estimates the difference of two processes' clocks from messages that went there and back. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace troupe {

/// The four stamps of NTP, in nanoseconds: one process asks at t0 and has the answer at t3, by its clock; the
/// other one receives the question at t1 and answers at t2, by its own.
struct round_trip {
  std::int64_t t0 = 0;
  std::int64_t t1 = 0;
  std::int64_t t2 = 0;
  std::int64_t t3 = 0;

  /// Time on both ways together.
  std::int64_t delay() const { return (t3 - t0) - (t2 - t1); }

  /// The other clock minus ours, if both ways took the same time; its error is at most half of the delay.
  std::int64_t offset() const { return ((t1 - t0) + (t2 - t3)) / 2; }
};

/// An offset at one time.
struct clock_point {
  std::int64_t at = 0;     ///< by our clock
  std::int64_t offset = 0; ///< the other clock minus ours
  std::int64_t error = 0;  ///< bound of the error
};

/// A known offset over time; empty: unknown.
class clock_offset {
 public:
  clock_offset() = default;

  /// @param points  ascending by time
  explicit clock_offset(std::vector<clock_point> points) : points_(std::move(points)) {}

  bool is_known() const { return !points_.empty(); }

  /// Interpolated between the neighbouring points; constant before the first and after the last.
  std::int64_t at(std::int64_t our_time) const;

  /// The other clock's time converted to ours.
  std::int64_t to_ours(std::int64_t their_time) const;

  /// The smallest error of all points.
  std::int64_t error() const;

  const std::vector<clock_point>& points() const { return points_; }

 private:
  std::vector<clock_point> points_;
};

/// In each window of time the round trip with the least delay counts, as in NTP's filter: queues only add
/// delay, and mostly to one of the two ways, so the quickest exchange is the best. Windows follow drifting
/// clocks; one with only slow exchanges is left out.
/// @param trips   in any order; those with a negative delay are impossible and ignored
/// @param window  by our clock
clock_offset estimate_offset(const std::vector<round_trip>& trips,
                             std::chrono::nanoseconds window = std::chrono::seconds{10});

} // namespace troupe
