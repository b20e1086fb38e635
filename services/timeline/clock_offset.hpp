// How far the clock of one process is ahead of another's, from messages that went there and came back. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

namespace troupe {

/// The four stamps of NTP, in nanoseconds: one process asks at t0 and has the answer at t3, by its clock; the
/// other one has the question at t1 and answers at t2, by its own.
struct round_trip {
  int64_t t0 = 0;
  int64_t t1 = 0;
  int64_t t2 = 0;
  int64_t t3 = 0;

  /// Time that was spent on the two ways together.
  int64_t delay() const { return (t3 - t0) - (t2 - t1); }

  /// The other clock minus ours, if both ways took the same time. It is wrong by half of the delay at most.
  int64_t offset() const { return ((t1 - t0) + (t2 - t3)) / 2; }
};

/// An offset that is known at one time.
struct clock_point {
  int64_t at = 0;     ///< by our clock
  int64_t offset = 0; ///< the other clock minus ours
  int64_t error = 0;  ///< the truth is within so much of it
};

/// What is known of an offset over time: nothing where it is empty.
class clock_offset {
 public:
  clock_offset() = default;

  /// @param points  ascending by time
  explicit clock_offset(std::vector<clock_point> points) : points_(std::move(points)) {}

  bool is_known() const { return !points_.empty(); }

  /// On the line between the points before and behind; before the first and behind the last it stays.
  int64_t at(int64_t our_time) const;

  /// The other clock's time by ours.
  int64_t to_ours(int64_t their_time) const;

  /// The smallest of all points.
  int64_t error() const;

  const std::vector<clock_point>& points() const { return points_; }

 private:
  std::vector<clock_point> points_;
};

/// In each window of time the round trip with the least delay counts, as in NTP's filter: waiting in queues
/// only ever adds, and mostly to one of the two ways, so that the quickest exchange says most. Windows follow
/// clocks that drift; one in which all were slow is left out.
/// @param trips   in any order; those with a negative delay are impossible and ignored
/// @param window  by our clock
clock_offset estimate_offset(const std::vector<round_trip>& trips,
                             std::chrono::nanoseconds window = std::chrono::seconds{10});

} // namespace troupe
