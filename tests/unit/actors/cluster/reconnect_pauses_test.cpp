#include "actors/cluster/reconnect_pauses.hpp"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace troupe {
namespace {

using std::chrono::milliseconds;

std::vector<milliseconds> pauses_of(std::uint64_t seed, std::size_t count) {
  reconnect_pauses pauses{seed};
  std::vector<milliseconds> result;
  while (result.size() < count)
    result.push_back(pauses.next());
  return result;
}

TEST(reconnect_pauses_test, each_is_of_the_upper_half_of_a_bound_that_doubles) {
  const std::vector<milliseconds> bounds{defaults::reconnect_min,      2 * defaults::reconnect_min,
                                         4 * defaults::reconnect_min,  8 * defaults::reconnect_min,
                                         16 * defaults::reconnect_min, defaults::reconnect_max,
                                         defaults::reconnect_max};
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    const auto pauses = pauses_of(seed, bounds.size());
    for (std::size_t at = 0; at < bounds.size(); ++at) {
      EXPECT_GE(pauses[at], bounds[at] / 2) << "seed " << seed << ", pause " << at;
      EXPECT_LE(pauses[at], bounds[at]) << "seed " << seed << ", pause " << at;
    }
  }
}

TEST(reconnect_pauses_test, equal_seeds_pause_equally_and_others_do_not) {
  EXPECT_EQ(pauses_of(7, 20), pauses_of(7, 20));
  EXPECT_NE(pauses_of(7, 20), pauses_of(8, 20)) << "ids are often neighbours";
}

TEST(reconnect_pauses_test, a_thousand_workers_come_back_spread_over_the_whole_half) {
  std::multiset<milliseconds> firsts;
  for (std::uint64_t seed = 1; seed <= 1000; ++seed)
    firsts.insert(pauses_of(seed, 1).front());
  for (auto at = defaults::reconnect_min / 2; at <= defaults::reconnect_min; ++at) {
    EXPECT_GE(firsts.count(at), 15U) << at.count() << " ms"; // 38 of a thousand in each of 26 ms
    EXPECT_LE(firsts.count(at), 70U) << at.count() << " ms";
  }
}

TEST(reconnect_pauses_test, a_scheduler_that_was_reached_is_looked_for_at_once_the_next_time) {
  reconnect_pauses pauses{3};
  for (int i = 0; i < 10; ++i)
    pauses.next();
  EXPECT_GT(pauses.next(), defaults::reconnect_min);
  pauses.reset();
  EXPECT_LE(pauses.next(), defaults::reconnect_min);
}

} // namespace
} // namespace troupe
