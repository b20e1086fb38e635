// The estimate of a clock's offset, for simulated clocks: skewed, drifting, over paths with queues.
#include <algorithm>
#include <random>

#include <gtest/gtest.h>

#include "services/timeline/clock_offset.hpp"

namespace troupe {
namespace {

constexpr std::int64_t microsecond = 1000;
constexpr std::int64_t millisecond = 1000 * microsecond;
constexpr std::int64_t s = 1000 * millisecond;

/// Two clocks, and exchanges between them every millisecond.
struct simulation {
  std::int64_t skew = 0; ///< of the other clock, at time 0
  double drift = 0;      ///< seconds a second
  std::int64_t least_there = 20 * microsecond;
  std::int64_t least_back = 20 * microsecond;
  double jitter_there = 0; ///< mean delay of queues, in ns; exponentially distributed
  double jitter_back = 0;
  std::uint32_t seed = 1;

  std::int64_t offset_at(std::int64_t time) const {
    return skew + static_cast<std::int64_t>(drift * static_cast<double>(time));
  }

  std::vector<round_trip> trips(std::int64_t duration) const {
    std::mt19937 random(seed);
    const auto extra = [&random](double mean) {
      return mean == 0 ? 0
                       : static_cast<std::int64_t>(std::exponential_distribution<double>(1 / mean)(random));
    };
    std::vector<round_trip> result;
    for (std::int64_t at = 0; at < duration; at += millisecond) {
      const auto arrived = at + least_there + extra(jitter_there);
      const auto answered = arrived + 300 * microsecond;
      const auto back = answered + least_back + extra(jitter_back);
      result.push_back({at, arrived + offset_at(arrived), answered + offset_at(answered), back});
    }
    return result;
  }
};

TEST(clock_offset, is_exact_over_ways_that_take_the_same_time) {
  const simulation two{.skew = -7 * s};
  const auto found = estimate_offset(two.trips(s));
  EXPECT_EQ(found.at(s / 2), -7 * s);
  EXPECT_EQ(found.error(), 20 * microsecond);
  EXPECT_EQ(found.to_ours(12 * s), 19 * s);
}

TEST(clock_offset, is_within_half_of_the_least_delay_whatever_queues_add_to_one_way) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    const simulation two{
        .skew = 3 * s, .jitter_there = 2.0 * millisecond, .jitter_back = 10.0 * microsecond, .seed = seed};
    const auto found = estimate_offset(two.trips(20 * s));
    for (const auto& point : found.points()) {
      EXPECT_LE(std::abs(point.offset - 3 * s), point.error) << seed;
      EXPECT_LT(point.error, 60 * microsecond) << seed; // a mean of all would be wrong by a millisecond
    }
  }
}

TEST(clock_offset, of_ways_that_differ_is_wrong_by_half_of_the_difference_at_most) {
  const simulation two{.skew = s, .least_there = 10 * microsecond, .least_back = 90 * microsecond};
  const auto found = estimate_offset(two.trips(s));
  EXPECT_EQ(found.at(0), s - 40 * microsecond);
  EXPECT_LE(std::abs(found.at(0) - s), found.error());
}

TEST(clock_offset, follows_a_clock_that_drifts) {
  const simulation two{.skew = 5 * millisecond,
                       .drift = 50e-6,
                       .jitter_there = 200.0 * microsecond,
                       .jitter_back = 200.0 * microsecond};
  const auto found = estimate_offset(two.trips(120 * s));
  EXPECT_GE(found.points().size(), 10U);
  for (std::int64_t at = 10 * s; at < 110 * s; at += s)
    EXPECT_NEAR(static_cast<double>(found.at(at)), static_cast<double>(two.offset_at(at)),
                100.0 * microsecond)
        << at / s;
  const auto theirs = 60 * s + two.offset_at(60 * s);
  EXPECT_NEAR(static_cast<double>(found.to_ours(theirs)), 60.0 * s, 100.0 * microsecond);
}

TEST(clock_offset, leaves_out_a_time_in_which_all_were_slow) {
  auto trips = simulation{.skew = s}.trips(10 * s);
  auto slow = simulation{.skew = s, .least_there = 50 * millisecond}.trips(10 * s);
  for (auto& trip : slow) {
    trip.t0 += 10 * s;
    trip.t1 += 10 * s;
    trip.t2 += 10 * s;
    trip.t3 += 10 * s;
  }
  trips.insert(trips.end(), slow.begin(), slow.end());
  const auto found = estimate_offset(trips);
  EXPECT_EQ(found.points().size(), 1U);
  EXPECT_EQ(found.at(15 * s), s);
}

TEST(clock_offset, ignores_what_cannot_be) {
  EXPECT_FALSE(estimate_offset({}).is_known());
  EXPECT_FALSE(estimate_offset({{0, 100, 900, 500}}).is_known()); // more time there than here
  EXPECT_EQ(estimate_offset({{0, 100, 900, 500}, {0, 10, 20, 30}}).points().size(), 1U);
}

} // namespace
} // namespace troupe
