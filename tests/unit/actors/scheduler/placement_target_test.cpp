// Who should hold which experts, under random joins, deaths and plans: what must hold whatever happens.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "actors/scheduler/placement_target.hpp"

namespace troupe {
namespace {

constexpr auto unlimited = UINT64_MAX;

class dice {
 public:
  explicit dice(uint32_t seed) : random_(seed) {}

  uint32_t below(uint32_t bound) { return static_cast<uint32_t>(random_() % bound); }

 private:
  std::mt19937 random_;
};

using hosts_by_expert = std::map<expert_id, std::vector<worker_id>>;

/// A target, with what the test knows of its history.
struct subject {
  placement_target target;
  std::vector<uint32_t> layers;
  std::map<worker_id, uint64_t> memory;

  explicit subject(std::vector<uint32_t> layer_experts, uint32_t num_replicas = 1,
                   placement_workload workload = {})
      : target({num_replicas, workload}), layers(std::move(layer_experts)) {
    target.set_layers(layers);
  }

  void add(uint64_t id, uint64_t max_experts = unlimited) {
    memory[{id}] = max_experts;
    target.add_host({id}, max_experts);
  }

  void remove(uint64_t id) {
    memory.erase({id});
    target.remove_host({id});
  }

  hosts_by_expert hosts() const {
    hosts_by_expert result;
    for (uint32_t layer = 0; layer < layers.size(); ++layer)
      for (uint32_t index = 0; index < layers[layer]; ++index)
        result[{layer, index}] = target.hosts({layer, index});
    return result;
  }

  uint64_t num_experts() const {
    uint64_t result = 0;
    for (auto experts : layers)
      result += experts;
    return result;
  }

  uint64_t capacity() const {
    uint64_t result = 0;
    for (const auto& [id, max_experts] : memory)
      result += std::min(max_experts, num_experts());
    return result;
  }

  /// Experts of the layer by host, with zeros; of all layers for the number of layers.
  std::map<worker_id, uint32_t> loads(size_t layer) const {
    std::map<worker_id, uint32_t> result;
    for (const auto& [id, max_experts] : memory)
      result[id] = 0;
    for (const auto& [expert, hosts] : hosts())
      if (layer == layers.size() || expert.layer == layer)
        for (auto host : hosts)
          ++result[host];
    return result;
  }
};

/// Between the most and the least.
uint32_t range_of(const std::map<worker_id, uint32_t>& loads, bool without_zeros = false) {
  uint32_t most = 0;
  uint32_t least = UINT32_MAX;
  for (const auto& [id, load] : loads)
    if (load > 0 || !without_zeros) {
      most = std::max(most, load);
      least = std::min(least, load);
    }
  return least == UINT32_MAX ? 0 : most - least;
}

/// Replicas that are where they were not before.
size_t moves_between(const hosts_by_expert& before, const hosts_by_expert& after) {
  size_t result = 0;
  for (const auto& [expert, hosts] : after)
    for (auto host : hosts) {
      const auto& old = before.at(expert);
      result += std::find(old.begin(), old.end(), host) == old.end() ? 1 : 0;
    }
  return result;
}

void expect_sound(const subject& s) {
  for (const auto& [expert, hosts] : s.hosts()) {
    ASSERT_TRUE(std::is_sorted(hosts.begin(), hosts.end()));
    ASSERT_TRUE(std::adjacent_find(hosts.begin(), hosts.end()) == hosts.end()) << "distinct hosts";
    for (auto host : hosts)
      ASSERT_TRUE(s.memory.contains(host)) << "a live host";
    if (s.capacity() >= s.num_experts()) {
      ASSERT_FALSE(hosts.empty()) << "(" << expert.layer << ", " << expert.index << ") is lost";
    }
  }
  for (const auto& [id, load] : s.loads(s.layers.size())) {
    ASSERT_LE(load, s.memory.at(id));
    ASSERT_EQ(s.target.experts_of(id).size(), load);
  }
}

std::vector<uint32_t> random_layers(dice& random) {
  std::vector<uint32_t> result;
  for (auto layers = 1 + random.below(6); layers > 0; --layers)
    result.push_back(random.below(4) == 0 ? 0 : 1 + random.below(12));
  return result;
}

TEST(placement_target, property_covers_everything_evenly_within_memory) {
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const auto replicas = 1 + random.below(3);
    subject s{random_layers(random), replicas};
    const auto num_hosts = 1 + random.below(8);
    const auto is_limited = random.below(2) == 0;
    const auto at_once = random.below(2) == 0;
    for (uint64_t id = 1; id <= num_hosts; ++id) {
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
      if (!is_limited) {
        ASSERT_EQ(hosts.size(), std::min(replicas, num_hosts));
      }
    }
    for (size_t layer = 0; layer <= s.layers.size() && !is_limited; ++layer)
      ASSERT_LE(range_of(s.loads(layer)), 1U) << "layer " << layer;
    EXPECT_TRUE(s.target.repair({}).empty()) << "what is good stays";
  }
}

TEST(placement_target, hosts_may_be_gone_before_the_first_repair) {
  subject s{{2}};
  s.add(1);
  s.remove(1);
  EXPECT_TRUE(s.target.repair({}).empty());
  s.add(2);
  EXPECT_EQ(s.target.repair({}), (std::vector<expert_target>{{{0, 0}, {{2}}}, {{0, 1}, {{2}}}}));
}

TEST(placement_target, a_death_moves_nothing_but_what_died) {
  subject s{{8, 8}};
  for (auto id : {1, 2, 3})
    s.add(static_cast<uint64_t>(id));
  s.target.repair({});
  const auto before = s.hosts();
  s.remove(3);
  s.target.repair({});
  const auto after = s.hosts();
  for (const auto& [expert, hosts] : before)
    if (hosts != std::vector<worker_id>{{3}}) {
      EXPECT_EQ(after.at(expert), hosts);
    }
}

TEST(placement_target, a_joining_host_gets_its_share_and_no_more_moves_than_that) {
  subject s{{8, 8}};
  for (auto id : {1, 2, 3})
    s.add(static_cast<uint64_t>(id));
  s.target.repair({});
  const auto before = s.hosts();
  s.add(4);
  EXPECT_EQ(s.target.repair({}).size(), 4U);
  EXPECT_EQ(moves_between(before, s.hosts()), 4U);
  EXPECT_EQ(s.target.experts_of({4}).size(), 4U);
}

/// A plan, joins, deaths in any order and in any batches.
TEST(placement_target, property_membership_repairs_a_plan_and_does_not_undo_it) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const auto replicas = 1 + random.below(2);
    subject s{random_layers(random), replicas};
    const auto is_limited = random.below(2) == 0;
    std::map<expert_id, std::set<worker_id>> plan; // what is left of it
    std::map<expert_id, size_t> planned_replicas;
    uint64_t next_id = 1;
    for (int step = 0; step < 60; ++step) {
      switch (random.below(5)) {
      case 0:
      case 1:
        s.add(next_id++, is_limited ? 4 + random.below(s.num_experts() + 1) : unlimited);
        break;
      case 2:
        if (s.memory.size() > 1) {
          auto victim = s.memory.begin();
          std::advance(victim, random.below(static_cast<uint32_t>(s.memory.size())));
          const auto id = victim->first;
          s.remove(id.value);
          for (auto& [expert, hosts] : plan)
            hosts.erase(id);
        }
        break;
      case 3: {
        const auto layer = random.below(static_cast<uint32_t>(s.layers.size()));
        if (s.layers[layer] == 0)
          break;
        const expert_id expert{layer, random.below(s.layers[layer])};
        std::set<worker_id> hosts;
        for (const auto& [id, max_experts] : s.memory)
          if (random.below(2) == 0)
            hosts.insert(id);
        s.target.set_hosts(expert, {hosts.begin(), hosts.end()});
        planned_replicas[expert] = hosts.size();
        if (hosts.empty()) {
          plan.erase(expert);
          planned_replicas.erase(expert);
        } else {
          plan[expert] = hosts;
        }
        break;
      }
      default:
        s.target.repair({});
        EXPECT_FALSE(s.target.wants_repair());
        expect_sound(s);
        for (const auto& [expert, hosts] : s.hosts()) {
          const auto found = planned_replicas.find(expert);
          const auto wanted = found == planned_replicas.end() ? replicas : found->second;
          ASSERT_LE(hosts.size(), wanted);
          if (is_limited)
            continue;
          ASSERT_EQ(hosts.size(), std::min<size_t>(wanted, s.memory.size()));
          for (auto host : plan[expert])
              ASSERT_TRUE(std::find(hosts.begin(), hosts.end(), host) != hosts.end()) << "still as planned";
        }
      }
      if (HasFatalFailure())
        return;
    }
  }
}

TEST(placement_target, equal_histories_give_equal_targets) {
  const auto play = [] {
    dice random{7};
    subject s{{40, 0, 64, 17}, 2};
    std::vector<expert_target> changes;
    for (uint64_t id = 1; id <= 40; ++id) {
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
  subject s{{4, 4}};
  s.add(1);
  s.add(2);
  s.target.repair({});
  const auto before = s.hosts();
  subject again{{4, 4}};
  again.add(1);
  again.add(2);
  again.target.repair([&](expert_id expert) -> std::span<const worker_id> { return before.at(expert); });
  EXPECT_EQ(again.hosts(), before) << "after a restart nothing moves";
  again.add(3);
  const std::vector<worker_id> joined{{3}};
  // The last expert of each layer is loaded at the host that joins.
  again.target.repair([&](expert_id expert) -> std::span<const worker_id> {
    return expert.index == 3 ? joined : before.at(expert);
  });
  for (auto expert : again.target.experts_of({3}))
    if (expert.layer == 0) {
      EXPECT_EQ(expert.index, 3U);
    }
}

TEST(placement_target, scarce_memory_goes_to_first_hosts) {
  subject s{{8}, 2};
  s.add(1, 8);
  s.add(2, 8);
  s.target.repair({});
  EXPECT_EQ(s.target.experts_of({1}).size(), 8U);
  EXPECT_EQ(s.target.experts_of({2}).size(), 8U);
  s.add(3, 4);
  s.remove(1);
  s.target.repair({});
  expect_sound(s);
  s.add(2, 4);
  s.target.repair({});
  for (const auto& [expert, hosts] : s.hosts())
    EXPECT_EQ(hosts.size(), 1U) << expert.index;
  s.add(4, 8);
  s.target.repair({});
  for (const auto& [expert, hosts] : s.hosts())
    EXPECT_EQ(hosts.size(), 2U) << "replicas come back with the memory";
}

TEST(placement_target, a_plan_displaces_what_is_free_and_exchanges_full_hosts_in_one_repair) {
  subject s{{4}};
  s.add(1, 2);
  s.add(2, 2);
  s.target.repair({});
  const auto one = s.target.experts_of({1});
  const auto two = s.target.experts_of({2});
  ASSERT_EQ(one.size(), 2U);
  for (auto expert : one)
    s.target.set_hosts(expert, {{2}});
  s.target.repair({});
  EXPECT_EQ(s.target.experts_of({2}), one);
  EXPECT_EQ(s.target.experts_of({1}), two);
}

TEST(placement_target, a_planners_replica_count_is_the_experts_own) {
  subject s{{4}};
  for (auto id : {1, 2, 3, 4})
    s.add(static_cast<uint64_t>(id));
  s.target.repair({});
  s.target.set_hosts({0, 2}, {{1}, {3}, {4}});
  s.target.repair({});
  EXPECT_EQ(s.target.hosts({0, 2}), (std::vector<worker_id>{{1}, {3}, {4}}));
  s.remove(3);
  s.target.repair({});
  EXPECT_EQ(s.target.hosts({0, 2}), (std::vector<worker_id>{{1}, {2}, {4}})) << "the lost one is replaced";
  s.target.set_hosts({0, 2}, {});
  s.target.repair({});
  EXPECT_EQ(s.target.hosts({0, 2}).size(), 1U);
  s.target.set_hosts({0, 2}, {{77}});
  s.target.repair({});
  EXPECT_EQ(s.target.hosts({0, 2}).size(), 1U) << "an unknown host is replaced";
}

TEST(placement_target, settling_keeps_what_is_loaded) {
  subject s{{4}};
  s.add(1, 2);
  s.add(2, 2);
  s.target.repair({});
  const auto before = s.hosts();
  for (auto expert : s.target.experts_of({1}))
    s.target.set_hosts(expert, {{2}});
  s.target.repair({});
  ASSERT_NE(s.hosts(), before);
  s.target.settle([&](expert_id expert) -> std::span<const worker_id> { return before.at(expert); });
  EXPECT_EQ(s.hosts(), before);
}

/// Large clusters: a layer lives on few hosts.
TEST(placement_target, property_layers_stay_within_their_spread_and_changes_move_little) {
  size_t all_moves = 0;
  size_t all_needed = 0;
  for (uint32_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const auto replicas = 1 + random.below(2);
    const auto num_layers = 4 + random.below(8);
    std::vector<uint32_t> layers(num_layers, 32 + random.below(225));
    layers.front() = 0;
    subject s{layers, replicas};
    uint64_t next_id = 1;
    for (auto count = 20 + random.below(100); count > 0; --count)
      s.add(next_id++);
    s.target.repair({});
    for (int step = 0; step < 30; ++step) {
      const auto before = s.hosts();
      size_t needed = 0;
      if (random.below(2) == 0) {
        s.add(next_id++);
        needed = s.num_experts() * replicas / s.memory.size() + 1;
      } else {
        auto victim = s.memory.begin();
        std::advance(victim, random.below(static_cast<uint32_t>(s.memory.size())));
        needed = s.target.experts_of(victim->first).size();
        s.remove(victim->first.value);
      }
      s.target.repair({});
      expect_sound(s);
      if (HasFatalFailure())
        return;
      uint32_t largest_share = 0;
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        const auto spread = s.target.spread(static_cast<uint32_t>(layer));
        uint32_t touched = 0;
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

TEST(placement_target, experts_that_fire_together_share_a_host_and_loads_stay) {
  // 32 experts in cliques of four: those with equal index modulo 8.
  subject s{{32}};
  for (uint64_t id = 1; id <= 8; ++id)
    s.add(id);
  s.target.repair({});
  const auto loads = s.loads(0);
  coactivation counts{32};
  for (uint32_t a = 0; a < 32; ++a)
    for (uint32_t b = a; b < 32; ++b)
      counts.add(a, b, a % 8 == b % 8 ? 10 : 1);
  s.target.set_coactivation(0, counts);
  EXPECT_TRUE(s.target.wants_repair());
  s.target.repair({});
  EXPECT_EQ(s.loads(0), loads);
  for (uint32_t index = 8; index < 32; ++index)
    EXPECT_EQ(s.target.hosts({0, index}), s.target.hosts({0, index % 8}));
  EXPECT_TRUE(s.target.repair({}).empty());
}

} // namespace
} // namespace troupe
