// Invariants of the placement target under random joins and deaths.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/actors/scheduler/target_subject.hpp"

namespace troupe {
namespace {

TEST(placement_target, property_covers_everything_evenly_within_memory) {
  for (std::uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const auto replicas = 1 + random.below(3);
    target_subject s{random_layers(random), replicas};
    const auto num_hosts = 1 + random.below(8);
    const auto is_limited = random.below(2) == 0;
    const auto at_once = random.below(2) == 0;
    for (std::uint64_t id = 1; id <= num_hosts; ++id) {
      s.add(id, is_limited ? s.num_experts() / num_hosts + 1 + random.below(4) : unlimited);
      if (!at_once)
        s.target.repair({});
    }
    s.target.repair({});
    expect_sound(s);
    if (HasFatalFailure())
      return;
    for (const auto& [expert, hosts] : s.hosts()) {
      ASSERT_LE(hosts.size(), replicas);
      if (!is_limited)
        ASSERT_EQ(hosts.size(), std::min(replicas, num_hosts));
    }
    for (std::size_t layer = 0; layer <= s.layers.size() && !is_limited; ++layer)
      ASSERT_LE(range_of(s.loads(layer)), 1U) << "layer " << layer;
    EXPECT_TRUE(s.target.repair({}).empty()) << "what is good stays";
  }
}

/// The experts of a layer that have a host.
std::set<std::uint32_t> placed(const target_subject& s, std::uint32_t layer) {
  std::set<std::uint32_t> result;
  for (std::uint32_t index = 0; index < s.layers[layer]; ++index)
    if (!s.target.hosts({layer, index}).empty())
      result.insert(index);
  return result;
}

TEST(placement_target, short_room_goes_to_the_busiest_experts) {
  target_subject s{{4, 0, 4}};
  s.target.set_activity({{1, 90, 3, 80}, {}, {70, 0, 60, 2}});
  s.add(1, 3);
  s.add(2, 2);
  s.target.repair({});
  EXPECT_EQ(s.target.num_unplaced(), 3U);
  EXPECT_EQ(placed(s, 0), (std::set<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(placed(s, 2), (std::set<std::uint32_t>{0, 2}));
  s.add(3, 3);
  s.target.repair({});
  EXPECT_EQ(s.target.num_unplaced(), 0U);
  expect_sound(s);
}

TEST(placement_target, what_survives_a_loss_stays_and_the_busiest_of_the_lost_come_back) {
  // Two hosts with room for 1.9 shares: 10 experts, of which one host holds 5 and can hold 9.
  target_subject s{{10}};
  s.add(1, 9);
  s.add(2, 9);
  s.target.repair({});
  const auto kept = s.target.experts_of({1});
  ASSERT_EQ(kept.size(), 5U);
  const auto lost = s.target.experts_of({2});
  std::vector<std::uint64_t> rows(10, 100);
  for (std::size_t i = 0; i < lost.size(); ++i)
    rows[lost[i].index] = i == 2 ? 1 : 50; // the third of the lost ones is the idlest
  s.target.set_activity({rows});
  s.remove(2);
  s.target.repair([&kept](expert_id id) {
    static const std::vector<worker_id> survivor{{1}};
    const auto is_kept = std::find(kept.begin(), kept.end(), id) != kept.end();
    return is_kept ? std::span<const worker_id>{survivor} : std::span<const worker_id>{};
  });
  EXPECT_EQ(s.target.num_unplaced(), 1U);
  EXPECT_TRUE(s.target.hosts(lost[2]).empty());
  expect_sound(s);
  s.target.repair({});
  EXPECT_TRUE(s.target.repair({}).empty()) << "nothing is tried again and again";
  s.add(2, 9);
  s.target.repair({});
  EXPECT_EQ(s.target.num_unplaced(), 0U);
}

TEST(placement_target, another_models_activity_is_ignored) {
  target_subject s{{2}};
  s.target.set_activity({{1, 2, 3}});
  s.target.set_activity({{0, 5}, {1}});
  s.add(1, 1);
  s.target.repair({});
  EXPECT_EQ(placed(s, 0), std::set<std::uint32_t>{0});
}

TEST(placement_target, hosts_may_be_gone_before_the_first_repair) {
  target_subject s{{2}};
  s.add(1);
  s.remove(1);
  EXPECT_TRUE(s.target.repair({}).empty());
  s.add(2);
  EXPECT_EQ(s.target.repair({}), (std::vector<expert_target>{{{0, 0}, {{2}}}, {{0, 1}, {{2}}}}));
}

TEST(placement_target, no_replicas_means_one) {
  target_subject s{{1}, 0};
  s.add(1);
  s.target.repair({});
  EXPECT_EQ(s.target.hosts({0, 0}), std::vector<worker_id>{{1}});
}

TEST(placement_target, a_death_moves_nothing_but_what_died) {
  target_subject s{{8, 8}};
  for (auto id : {1, 2, 3})
    s.add(static_cast<std::uint64_t>(id));
  s.target.repair({});
  const auto before = s.hosts();
  s.remove(3);
  s.target.repair({});
  const auto after = s.hosts();
  for (const auto& [expert, hosts] : before)
    if (hosts != std::vector<worker_id>{{3}})
      EXPECT_EQ(after.at(expert), hosts);
}

TEST(placement_target, a_joining_host_gets_its_share_and_no_more_moves_than_that) {
  target_subject s{{8, 8}};
  for (auto id : {1, 2, 3})
    s.add(static_cast<std::uint64_t>(id));
  s.target.repair({});
  const auto before = s.hosts();
  s.add(4);
  EXPECT_EQ(s.target.repair({}).size(), 4U);
  EXPECT_EQ(moves_between(before, s.hosts()), 4U);
  EXPECT_EQ(s.target.experts_of({4}).size(), 4U);
}

/// A plan, joins, deaths in any order and in any batches.
TEST(placement_target, equal_histories_give_equal_targets) {
  const auto play = [] {
    dice random{7};
    target_subject s{{40, 0, 64, 17}, 2};
    std::vector<expert_target> changes;
    for (std::uint64_t id = 1; id <= 40; ++id) {
      s.add(1 + (id * 7919) % 1000, 10 + random.below(20));
      if (id % 5 == 0)
        s.remove(s.memory.begin()->first.value);
      if (random.below(2) == 0)
        for (auto& change : s.target.repair({}))
          changes.push_back(std::move(change));
    }
    return std::pair{s.hosts(), changes};
  };
  EXPECT_EQ(play(), play());
}

TEST(placement_target, what_is_loaded_stays_and_is_preferred_as_the_goal_of_a_move) {
  // Not as a target without anything loaded would have it.
  const hosts_by_expert loaded{{{0, 0}, {{2}}}, {{0, 1}, {{2}}}, {{0, 2}, {{1}}}, {{0, 3}, {{1}}},
                               {{1, 0}, {{1}}}, {{1, 1}, {{1}}}, {{1, 2}, {{2}}}, {{1, 3}, {{2}}}};
  target_subject s{{4, 4}};
  s.add(1);
  s.add(2);
  s.target.repair([&](expert_id expert) -> std::span<const worker_id> { return loaded.at(expert); });
  EXPECT_EQ(s.hosts(), loaded) << "after a restart nothing moves";
  s.add(3);
  const std::vector<worker_id> joined{{3}};
  // The last expert of each layer is loaded at the joining host.
  s.target.repair([&](expert_id expert) -> std::span<const worker_id> {
    return expert.index % 2 == 1 ? joined : loaded.at(expert);
  });
  EXPECT_EQ(s.target.experts_of({3}).size(), 2U);
  for (auto expert : s.target.experts_of({3}))
    EXPECT_EQ(expert.index % 2, 1U);
}

/// A target of layers of 256 experts that are loaded, evenly, on hosts [first, last] each.
target_subject loaded_on(std::uint64_t num_hosts,
                         const std::vector<std::pair<std::uint64_t, std::uint64_t>>& ranges) {
  target_subject s{std::vector<std::uint32_t>(ranges.size(), 256)};
  for (std::uint64_t id = 1; id <= num_hosts; ++id)
    s.add(id);
  hosts_by_expert loaded;
  for (std::uint32_t layer = 0; layer < ranges.size(); ++layer)
    for (std::uint32_t index = 0; index < 256; ++index) {
      const auto [first, last] = ranges[layer];
      loaded[{layer, index}] = {{first + index % (last - first + 1)}};
    }
  s.target.repair([&](expert_id expert) -> std::span<const worker_id> { return loaded.at(expert); });
  return s;
}

std::size_t num_members(const target_subject& s, std::size_t layer) {
  const auto loads = s.loads(layer);
  return static_cast<std::size_t>(
      std::count_if(loads.begin(), loads.end(), [](const auto& x) { return x.second > 0; }));
}

TEST(placement_target, a_layer_on_too_many_or_too_few_hosts_is_drawn_together_or_spread) {
  const auto wide = loaded_on(40, {{1, 40}});
  EXPECT_EQ(wide.target.spread(0).high, 21U);
  EXPECT_EQ(num_members(wide, 0), 21U);
  const auto narrow = loaded_on(20, {{1, 10}, {11, 20}});
  EXPECT_EQ(narrow.target.spread(0).low, 12U);
  EXPECT_GE(num_members(narrow, 0), 12U);
  EXPECT_GE(num_members(narrow, 1), 12U);
}

TEST(placement_target, a_host_with_two_layers_gives_one_up_when_others_have_one) {
  const auto s = loaded_on(33, {{1, 17}, {17, 33}});
  EXPECT_LE(range_of(s.loads(2)), 2U);
}

TEST(placement_target, hosts_have_equally_many_layers_though_the_best_spread_does_not_divide_so) {
  target_subject s{std::vector<std::uint32_t>(6, 131), 2};
  for (std::uint64_t id = 1; id <= 88; ++id)
    s.add(id);
  s.target.repair({});
  EXPECT_LE(range_of(s.loads(6)), 2U);
}

/// Large clusters: a layer lives on few hosts.
TEST(placement_target, property_layers_stay_within_their_spread_and_changes_move_little) {
  std::size_t all_moves = 0;
  std::size_t all_needed = 0;
  for (std::uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const auto replicas = 1 + random.below(2);
    const auto num_layers = 4 + random.below(8);
    std::vector<std::uint32_t> layers(num_layers, 32 + random.below(225));
    layers.front() = 0;
    target_subject s{layers, replicas};
    std::uint64_t next_id = 1;
    for (auto count = 20 + random.below(100); count > 0; --count)
      s.add(next_id++);
    s.target.repair({});
    for (int step = 0; step < 30; ++step) {
      const auto before = s.hosts();
      std::size_t needed = 0;
      if (random.below(2) == 0) {
        s.add(next_id++);
        needed = s.num_experts() * replicas / s.memory.size() + 1;
      } else {
        auto victim = s.memory.begin();
        std::advance(victim, random.below(static_cast<std::uint32_t>(s.memory.size())));
        needed = s.target.experts_of(victim->first).size();
        s.remove(victim->first.value);
      }
      s.target.repair({});
      expect_sound(s);
      if (HasFatalFailure())
        return;
      std::uint32_t largest_share = 0;
      for (std::size_t layer = 0; layer < layers.size(); ++layer) {
        const auto spread = s.target.spread(static_cast<std::uint32_t>(layer));
        std::uint32_t touched = 0;
        for (const auto& [id, load] : s.loads(layer)) {
          touched += load > 0 ? 1 : 0;
          largest_share = std::max(largest_share, load);
        }
        ASSERT_LE(touched, spread.high);
        ASSERT_GE(touched, spread.low);
        ASSERT_LE(range_of(s.loads(layer), true), 1U);
      }
      ASSERT_LE(range_of(s.loads(layers.size())), 2 * largest_share);
      const auto moves = moves_between(before, s.hosts());
      ASSERT_LE(moves, 3 * needed + 2 * largest_share);
      all_moves += moves;
      all_needed += needed;
      ASSERT_TRUE(s.target.repair({}).empty()) << "what is good stays";
    }
  }
  EXPECT_LE(all_moves, all_needed * 5 / 4) << "on average";
}

} // namespace
} // namespace troupe
