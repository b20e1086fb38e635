#include "services/timeline/clock_offset.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace troupe {

namespace {

/// A window is left out if its best exchange took more than this factor times the best of all.
constexpr std::int64_t most_times_the_best = 4;

} // namespace

std::int64_t clock_offset::at(std::int64_t our_time) const {
  const auto behind =
      std::lower_bound(points_.begin(), points_.end(), our_time,
                       [](const clock_point& point, std::int64_t time) { return point.at < time; });
  if (behind == points_.end())
    return points_.back().offset;
  if (behind == points_.begin())
    return behind->offset;
  const auto& before = *(behind - 1);
  const auto part = static_cast<double>(our_time - before.at)
                    / static_cast<double>(std::max<std::int64_t>(behind->at - before.at, 1));
  return before.offset
         + static_cast<std::int64_t>(part * static_cast<double>(behind->offset - before.offset));
}

std::int64_t clock_offset::to_ours(std::int64_t their_time) const {
  // Offsets change by microseconds a second at most: the second lookup is at the right place.
  return their_time - at(their_time - at(their_time - points_.front().offset));
}

std::int64_t clock_offset::error() const {
  return std::min_element(points_.begin(), points_.end(),
                          [](const auto& one, const auto& other) { return one.error < other.error; })
      ->error;
}

clock_offset estimate_offset(const std::vector<round_trip>& trips, std::chrono::nanoseconds window) {
  std::map<std::int64_t, round_trip> quickest; // by window
  std::int64_t best = INT64_MAX;
  for (const auto& trip : trips) {
    if (trip.delay() < 0 || trip.t3 < trip.t0)
      continue;
    best = std::min(best, trip.delay());
    const auto [found, is_new] = quickest.try_emplace(trip.t0 / window.count(), trip);
    if (!is_new && trip.delay() < found->second.delay())
      found->second = trip;
  }
  std::vector<clock_point> points;
  for (const auto& [number, trip] : quickest)
    if (trip.delay() / most_times_the_best <= best)
      points.push_back({(trip.t0 + trip.t3) / 2, trip.offset(), (trip.delay() + 1) / 2});
  std::sort(points.begin(), points.end(),
            [](const auto& one, const auto& other) { return one.at < other.at; });
  return clock_offset{std::move(points)};
}

} // namespace troupe
