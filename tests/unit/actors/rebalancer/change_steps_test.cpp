// The order of a change's moves, and its end.
#include "actors/rebalancer/change_steps.hpp"

#include <algorithm>
#include <random>
#include <set>

#include <gtest/gtest.h>

namespace troupe {
namespace {

placement_step step(std::uint32_t expert, std::vector<worker_id> from, std::vector<worker_id> to) {
  return {{0, expert}, std::move(from), std::move(to)};
}

std::vector<std::uint32_t> begun(change_steps& change) {
  std::vector<std::uint32_t> result;
  for (const auto& one : change.begin())
    result.push_back(one.expert.index);
  return result;
}

using indices = std::vector<std::uint32_t>;

TEST(change_steps_test, a_host_takes_part_in_one_move_at_a_time) {
  change_steps change{
      {step(0, {{1}}, {{2}}), step(1, {{3}}, {{2}}), step(2, {{3}}, {{4}}), step(3, {{2}}, {{5}})}, {}};
  EXPECT_EQ(begun(change), (indices{0, 2}));
  EXPECT_EQ(begun(change), indices{});
  change.end({0, 2}, true);
  EXPECT_EQ(begun(change), indices{}) << "2 is still loading";
  change.end({0, 0}, true);
  EXPECT_EQ(begun(change), (indices{1}));
  change.end({0, 1}, false);
  EXPECT_EQ(begun(change), (indices{3}));
  EXPECT_FALSE(change.is_over());
  change.end({0, 3}, true);
  EXPECT_TRUE(change.is_over());
  EXPECT_EQ(change.num_done(), 3U);
  EXPECT_EQ(change.num_given_up(), 1U);
}

TEST(change_steps_test, a_further_replica_leaves_its_other_hosts_free) {
  change_steps change{{step(0, {{1}}, {{1}, {2}}), step(1, {{1}}, {{3}})}, {}};
  EXPECT_EQ(begun(change), (indices{0, 1}));
  EXPECT_EQ(gaining_hosts(step(0, {{1}}, {{1}, {2}})), (std::vector<worker_id>{{2}}));
}

TEST(change_steps_test, nobody_loads_what_has_no_room) {
  change_steps change{{step(0, {{1}}, {{2}}), step(1, {{2}}, {{3}})}, {{{1}, 0}, {{2}, 0}, {{3}, 1}}};
  EXPECT_EQ(begun(change), (indices{1})) << "2 is full until 1 has left it";
  change.end({0, 1}, true);
  EXPECT_EQ(begun(change), (indices{0}));
  change.end({0, 0}, true);
  EXPECT_TRUE(change.is_over());
}

TEST(change_steps_test, hosts_that_wait_for_one_another_are_stuck) {
  change_steps change{{step(0, {{1}}, {{2}}), step(1, {{2}}, {{1}})}, {{{1}, 0}, {{2}, 0}}};
  EXPECT_EQ(begun(change), indices{});
  EXPECT_TRUE(change.is_stuck());
  EXPECT_EQ(change.num_left(), 2U);
  change.give_up();
  EXPECT_TRUE(change.is_over());
  EXPECT_FALSE(change.is_stuck());
  EXPECT_EQ(change.num_given_up(), 2U);
}

TEST(change_steps_test, a_move_that_is_given_up_gives_its_room_back) {
  change_steps change{{step(0, {{1}}, {{2}}), step(1, {{3}}, {{2}})}, {{{2}, 1}}};
  EXPECT_EQ(begun(change), (indices{0}));
  change.end({0, 0}, false);
  EXPECT_EQ(begun(change), (indices{1}));
}

TEST(change_steps_test, property_every_change_ends_and_no_host_is_in_two_moves) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random{seed};
    const auto below = [&random](std::uint32_t bound) {
      return static_cast<std::uint32_t>(random() % bound);
    };
    std::map<worker_id, std::uint64_t> room;
    const auto num_hosts = 2 + below(5);
    for (std::uint64_t id = 1; id <= num_hosts; ++id)
      if (below(2) == 0)
        room[{id}] = below(4);
    std::vector<placement_step> steps;
    for (std::uint32_t expert = 0; expert < 1 + below(40); ++expert) {
      std::set<worker_id> from{{1 + below(num_hosts)}};
      std::set<worker_id> to{{1 + below(num_hosts)}};
      if (below(3) == 0)
        to.insert({1 + below(num_hosts)});
      steps.push_back(step(expert, {from.begin(), from.end()}, {to.begin(), to.end()}));
    }
    const auto num_steps = steps.size();
    change_steps change{steps, room};
    std::vector<placement_step> flying;
    while (!change.is_over()) {
      for (auto& one : change.begin())
        flying.push_back(std::move(one));
      ASSERT_LE(flying.size(), change_steps::max_in_flight);
      std::multiset<worker_id> loading;
      for (const auto& one : flying)
        for (auto id : gaining_hosts(one))
          loading.insert(id);
      for (auto id : loading)
        ASSERT_EQ(loading.count(id), 1U);
      if (change.is_stuck()) {
        change.give_up();
        continue;
      }
      ASSERT_FALSE(flying.empty());
      const auto at = flying.begin() + below(static_cast<std::uint32_t>(flying.size()));
      change.end(at->expert, below(4) != 0);
      flying.erase(at);
    }
    EXPECT_EQ(change.num_done() + change.num_given_up(), num_steps);
  }
}

} // namespace
} // namespace troupe
