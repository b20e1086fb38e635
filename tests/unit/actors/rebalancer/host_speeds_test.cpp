// Speeds computed from hosts' reports of work.
#include "actors/rebalancer/host_speeds.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

/// One more observation of a host that takes N ns per expert.
void work(host_speeds& speeds, std::map<worker_id, expert_work>& done, worker_id id, std::uint64_t ns_per_run,
          std::uint64_t runs = 1000) {
  done[id].runs += runs;
  done[id].busy_ns += runs * ns_per_run;
  speeds.observe(id, done[id]);
}

TEST(host_speeds_test, a_host_that_takes_twice_as_long_has_half_the_speed) {
  host_speeds speeds;
  std::map<worker_id, expert_work> done;
  for (int round = 0; round < 20; ++round) {
    work(speeds, done, {1}, 100);
    work(speeds, done, {2}, 100);
    work(speeds, done, {3}, 200);
  }
  speeds.settle();
  EXPECT_DOUBLE_EQ(speeds.speed({1}), 1);
  EXPECT_NEAR(speeds.speed({3}), 0.5, 0.01);
  EXPECT_DOUBLE_EQ(speeds.speed({9}), 1) << "nobody knows it";
  EXPECT_NEAR(speeds.ns_per_run(), 100, 1);
}

TEST(host_speeds_test, noise_changes_nothing) {
  host_speeds speeds;
  std::map<worker_id, expert_work> done;
  for (std::uint64_t round = 0; round < 20; ++round) {
    work(speeds, done, {1}, 100);
    work(speeds, done, {2}, 95 + round % 10);
    speeds.settle();
    EXPECT_DOUBLE_EQ(speeds.speed({1}), 1);
    EXPECT_DOUBLE_EQ(speeds.speed({2}), 1);
  }
}

TEST(host_speeds_test, a_few_runs_add_up_before_they_count) {
  host_speeds speeds;
  std::map<worker_id, expert_work> done;
  for (int round = 0; round < 6; ++round)
    work(speeds, done, {1}, 100, 10);
  EXPECT_DOUBLE_EQ(speeds.ns_per_run(), 0);
  work(speeds, done, {1}, 100, 10);
  EXPECT_DOUBLE_EQ(speeds.ns_per_run(), 100);
}

TEST(host_speeds_test, a_host_that_starts_anew_is_measured_anew) {
  host_speeds speeds;
  speeds.observe({1}, {100'000, 1000, 0});
  EXPECT_DOUBLE_EQ(speeds.ns_per_run(), 100);
  speeds.observe({1}, {0, 0, 0});
  EXPECT_DOUBLE_EQ(speeds.ns_per_run(), 0);
  speeds.observe({1}, {200'000, 1000, 0});
  EXPECT_DOUBLE_EQ(speeds.ns_per_run(), 200);
  speeds.forget_others({});
  EXPECT_DOUBLE_EQ(speeds.ns_per_run(), 0);
}

} // namespace
} // namespace troupe
