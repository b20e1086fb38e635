// How much may wait for a place, given the rate of placements.
#include "actors/scheduler/queue_rate.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Places N tokens ten times a second while requests wait.
time_point give(queue_rate& rate, time_point from, std::chrono::milliseconds time, std::uint64_t tokens) {
  for (const auto end = from + time; from < end;) {
    from += 100ms;
    rate.observe(from, tokens, true);
  }
  return from;
}

TEST(queue_rate, without_a_longest_wait_there_is_no_limit) {
  queue_rate unlimited{0ms};
  unlimited.observe({}, 0, true);
  give(unlimited, {}, 10s, 5);
  EXPECT_FALSE(unlimited.most_waiting(1000));
}

TEST(queue_rate, there_is_no_limit_before_something_is_measured) {
  queue_rate rate{10s};
  EXPECT_FALSE(rate.most_waiting(1000));
  rate.observe({}, 0, true);
  give(rate, {}, 900ms, 50);
  EXPECT_FALSE(rate.most_waiting(1000));
  give(rate, time_point{} + 900ms, 200ms, 50);
  EXPECT_TRUE(rate.most_waiting(1000));
}

TEST(queue_rate, nearly_as_much_may_wait_as_gets_a_place_within_the_longest_wait) {
  queue_rate rate{10s};
  rate.observe({}, 0, true);
  auto now = give(rate, {}, 60s, 50); // 500 a second
  ASSERT_TRUE(rate.most_waiting(1000));
  EXPECT_NEAR(static_cast<double>(*rate.most_waiting(1000)), 4000, 10);
  give(rate, now, 60s, 10);
  EXPECT_NEAR(static_cast<double>(*rate.most_waiting(100)), 800, 100) << "it has become slower";
}

TEST(queue_rate, only_time_in_which_somebody_waits_counts) {
  queue_rate rate{10s};
  rate.observe({}, 0, true);
  auto now = give(rate, {}, 60s, 50);
  const auto before = *rate.most_waiting(0);
  rate.observe(now, 0, false);
  now += 1h;
  rate.observe(now, 0, true);
  EXPECT_NEAR(static_cast<double>(*rate.most_waiting(0)), static_cast<double>(before), 1);
  rate.observe(now + 1h, 0, true); // a stalled scheduler
  EXPECT_GT(*rate.most_waiting(0), before * 9 / 10);
}

TEST(queue_rate, as_much_as_runs_may_wait_where_nothing_has_ended_yet) {
  queue_rate rate{10s};
  rate.observe({}, 0, true);
  give(rate, {}, 60s, 0);
  EXPECT_EQ(rate.most_waiting(1000), 1000U);
}

} // namespace
} // namespace troupe
