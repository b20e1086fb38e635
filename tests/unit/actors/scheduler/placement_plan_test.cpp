// Planners' orders, scarce memory, and their priorities.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tests/unit/actors/scheduler/target_subject.hpp"

namespace troupe {
namespace {

TEST(placement_plan, property_membership_repairs_a_plan_and_does_not_undo_it) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const auto replicas = 1 + random.below(2);
    target_subject s{random_layers(random), replicas};
    const auto is_limited = random.below(2) == 0;
    std::map<expert_id, std::set<worker_id>> plan; // the part that still holds
    std::map<expert_id, std::size_t> planned_replicas;
    std::uint64_t next_id = 1;
    for (int step = 0; step < 60; ++step) {
      switch (random.below(5)) {
      case 0:
      case 1:
        s.add(next_id++,
              is_limited ? 4 + random.below(static_cast<std::uint32_t>(s.num_experts()) + 1) : unlimited);
        break;
      case 2:
        if (s.memory.size() > 1) {
          auto victim = s.memory.begin();
          std::advance(victim, random.below(static_cast<std::uint32_t>(s.memory.size())));
          const auto id = victim->first;
          s.remove(id.value);
          for (auto& [expert, hosts] : plan)
            hosts.erase(id);
        }
        break;
      case 3: {
        const auto layer = random.below(static_cast<std::uint32_t>(s.layers.size()));
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
          ASSERT_EQ(hosts.size(), std::min<std::size_t>(wanted, s.memory.size()));
          for (auto host : plan[expert])
            ASSERT_TRUE(std::find(hosts.begin(), hosts.end(), host) != hosts.end()) << "still as planned";
        }
      }
      if (HasFatalFailure())
        return;
    }
  }
}

TEST(placement_plan, scarce_memory_goes_to_first_hosts) {
  target_subject s{{8}, 2};
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

TEST(placement_plan, a_free_replica_gives_way_before_a_planned_one) {
  target_subject s{{3}, 2};
  s.add(1, 2);
  s.add(2, 2);
  s.target.set_hosts({0, 2}, {{1}, {2}});
  s.target.set_hosts({0, 0}, {{1}});
  s.target.repair({});
  ASSERT_EQ(s.target.hosts({0, 1}), std::vector<worker_id>{{2}});
  s.target.set_hosts({0, 0}, {});
  s.add(3, 1);
  s.target.repair({});
  ASSERT_EQ(s.target.hosts({0, 0}), (std::vector<worker_id>{{1}, {3}})) << "a free replica";
  s.add(2, 1); // (0, 1) has to leave, and there is no room
  s.target.repair({});
  expect_sound(s);
  EXPECT_EQ(s.target.hosts({0, 2}), (std::vector<worker_id>{{1}, {2}}));
  EXPECT_EQ(s.target.hosts({0, 0}).size(), 1U);
}

TEST(placement_plan, a_plan_displaces_what_is_free_and_exchanges_full_hosts_in_one_repair) {
  target_subject s{{4}};
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

TEST(placement_plan, a_planners_replica_count_is_the_experts_own) {
  target_subject s{{4}};
  for (auto id : {1, 2, 3, 4})
    s.add(static_cast<std::uint64_t>(id));
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

TEST(placement_plan, settling_keeps_what_is_loaded) {
  target_subject s{{4}};
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

} // namespace
} // namespace troupe
