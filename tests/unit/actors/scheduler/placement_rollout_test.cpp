// The rollout from target to reality: step by step equal to a model that recomputes everything.
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "actors/scheduler/placement_rollout.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"
#include "tests/unit/actors/scheduler/rollout_reference.hpp"

namespace troupe {
namespace {

/// Calls both, and compares all results.
class both {
 public:
  explicit both(std::vector<std::uint32_t> layer_experts) : layers(std::move(layer_experts)) {
    rollout.set_layers(layers);
    reference.set_layers(layers);
  }

  void compare() {
    ASSERT_EQ(rollout.wants_route(), reference.wants_route());
    ASSERT_EQ(rollout.is_complete(), reference.is_complete());
    ASSERT_EQ(rollout.is_stuck(), reference.is_stuck());
    ASSERT_EQ(rollout.awaits_confirmation(), reference.awaits_confirmation());
    ASSERT_EQ(rollout.num_hosts(), reference.hosts.size());
    std::set<worker_id> with_orders;
    for (const auto& [id, host] : reference.hosts) {
      ASSERT_EQ(rollout.is_free(id), reference.is_free(id));
      ASSERT_EQ(rollout.hosted(id), reference.hosted(id));
      if (rollout_reference copy = reference; copy.next_order(id))
        with_orders.insert(id);
    }
    ASSERT_EQ(rollout.hosts_with_orders(), with_orders);
  }

  void route(std::uint64_t term, std::uint64_t epoch) {
    const auto [placement, changed] = rollout.route(term, epoch);
    ASSERT_EQ(changed, reference.route(term, epoch));
    ASSERT_EQ(placement.term, term);
    ASSERT_EQ(placement.epoch, epoch);
    ASSERT_EQ(placement.layers.size(), layers.size());
    for (std::uint32_t layer = 0; layer < layers.size(); ++layer) {
      const auto& published = *placement.layers[layer];
      ASSERT_EQ(published.version, reference.versions[layer]);
      ASSERT_EQ(published.experts.size(), layers[layer]);
      for (std::uint32_t index = 0; index < layers[layer]; ++index)
        ASSERT_EQ(published.experts[index].hosts, (reference.routed[{layer, index}]));
      if (!last.empty() && !std::binary_search(changed.begin(), changed.end(), layer))
        ASSERT_EQ(placement.layers[layer], last[layer]) << "the same object";
    }
    last = placement.layers;
  }

  std::vector<std::uint32_t> layers;
  placement_rollout rollout;
  rollout_reference reference;
  std::vector<layer_placement_ptr> last;
};

TEST(placement_rollout, property_equals_what_is_computed_from_scratch) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    both x{{5, 0, seed % 8 == 0 ? 70U : 7U}}; // 70: more than fit into one order
    const auto capacity = random.below(2) == 0 ? UINT64_MAX : 4 + random.below(60);
    std::vector<worker_id> hosts;
    std::vector<worker_id> gone;
    std::map<worker_id, std::uint64_t> routers; // newest epoch that each knows
    std::uint64_t next_id = 1;
    std::uint64_t term = 1;
    std::uint64_t epoch = 0;
    const auto random_experts = [&](std::uint32_t one_in) {
      std::vector<expert_id> result;
      for (std::uint32_t layer = 0; layer < x.layers.size(); ++layer)
        for (std::uint32_t index = 0; index < x.layers[layer]; ++index)
          if (random.below(one_in) == 0)
            result.push_back({layer, index});
      return result;
    };
    for (int step = 0; step < 300; ++step) {
      const auto any_host =
          hosts.empty() ? worker_id{999} : hosts[random.below(static_cast<std::uint32_t>(hosts.size()))];
      switch (random.below(14)) {
      case 0:
        if (hosts.size() < 5) {
          const auto hosted = random_experts(1 + random.below(20));
          if (!gone.empty() && random.below(2) == 0) {
            hosts.push_back(gone.back());
            gone.pop_back();
          } else {
            hosts.push_back({next_id++});
          }
          x.rollout.add_host(hosts.back(), capacity, hosted);
          x.reference.add_host(hosts.back(), capacity, hosted);
        }
        break;
      case 1: // joins again: its connection was lost, or the scheduler has removed it just before
        if (!hosts.empty()) {
          auto hosted = x.reference.hosted(any_host);
          if (random.below(2) == 0)
            hosted = random_experts(4);
          if (random.below(2) == 0) {
            x.rollout.remove_host(any_host);
            x.reference.remove_host(any_host);
          }
          x.rollout.add_host(any_host, capacity, hosted);
          x.reference.add_host(any_host, capacity, hosted);
        }
        break;
      case 2:
        if (random.below(3) == 0) {
          x.rollout.remove_host(any_host);
          x.reference.remove_host(any_host);
          if (std::erase(hosts, any_host) > 0)
            gone.push_back(any_host);
        }
        break;
      case 3: // loads or loses any experts
      case 4: {
        auto hosted = x.reference.hosted(any_host);
        for (auto expert : random_experts(8))
          if (std::erase(hosted, expert) == 0)
            hosted.push_back(expert);
        hosted.push_back({7, 7}); // of another model
        x.rollout.reported(any_host, hosted);
        x.reference.reported(any_host, hosted);
        break;
      }
      case 5:
      case 6: {
        std::vector<expert_target> targets;
        for (auto expert : random_experts(1 + random.below(8))) {
          auto& target = targets.emplace_back();
          target.expert = expert;
          for (auto id : hosts)
            if (random.below(3) == 0)
              target.hosts.push_back(id);
        }
        x.rollout.retarget(targets);
        x.reference.retarget(targets);
        break;
      }
      case 7:
        if (routers.size() < 3) {
          const worker_id id{1000 + next_id++};
          routers[id] = epoch;
          x.rollout.add_router(id);
          x.reference.add_router(id);
        } else if (random.below(3) == 0) {
          const auto id = routers.begin()->first;
          routers.erase(id);
          x.rollout.remove_router(id);
          x.reference.remove_router(id);
        }
        break;
      case 8:
      case 9:
        for (auto& [id, known] : routers)
          if (random.below(2) == 0) {
            known += random.below(static_cast<std::uint32_t>(epoch - known) + 1);
            ASSERT_EQ(x.rollout.confirmed(id, known), x.reference.confirmed(id, known));
          }
        break;
      case 10:
        if (random.below(8) == 0) {
          x.rollout.restart_epochs();
          x.reference.restart_epochs();
          ++term;
          epoch = 0;
          for (auto& [id, known] : routers)
            known = 0;
        }
        break;
      case 11: // what the host loads of it is told by a report
        ASSERT_EQ(x.rollout.next_order(any_host), x.reference.next_order(any_host));
        break;
      default:
        x.route(term, ++epoch);
      }
      x.compare();
      if (HasFatalFailure())
        return;
    }
  }
}

std::vector<expert_id> experts_below(std::uint32_t end) {
  std::vector<expert_id> result;
  for (std::uint32_t index = 0; index < end; ++index)
    result.push_back({0, index});
  return result;
}

TEST(placement_rollout, a_move_is_ordered_routed_confirmed_and_released) {
  placement_rollout rollout;
  rollout.set_layers({2});
  rollout.add_router({100});
  rollout.add_host({1}, 8, experts_below(2));
  rollout.add_host({2}, 8, {});
  rollout.retarget({{{0, 0}, {{1}}}, {{0, 1}, {{1}}}});
  const auto first = rollout.route(1, 1);
  EXPECT_EQ(first.changed_layers, std::vector<std::uint32_t>{0});
  EXPECT_TRUE(rollout.is_complete());
  EXPECT_TRUE(rollout.hosts_with_orders().empty());
  rollout.confirmed({100}, 1);

  rollout.retarget({{{0, 1}, {{2}}}});
  EXPECT_FALSE(rollout.wants_route()) << "nobody else has it yet";
  EXPECT_EQ(rollout.hosts_with_orders(), std::set<worker_id>{{2}});
  EXPECT_EQ(rollout.next_order({2}), (std::vector<expert_id>{{0, 1}}));
  rollout.reported({2}, {{0, 1}});
  EXPECT_TRUE(rollout.hosts_with_orders().empty());
  ASSERT_TRUE(rollout.wants_route());
  const auto second = rollout.route(1, 2);
  EXPECT_EQ(second.experts.layers[0]->experts[1].hosts, std::vector<worker_id>{{2}});
  EXPECT_TRUE(rollout.awaits_confirmation());
  EXPECT_TRUE(rollout.hosts_with_orders().empty()) << "the router may still send to the old host";
  EXPECT_TRUE(rollout.confirmed({100}, 2));
  EXPECT_FALSE(rollout.confirmed({100}, 2)) << "no news";
  EXPECT_EQ(rollout.hosts_with_orders(), std::set<worker_id>{{1}});
  EXPECT_EQ(rollout.next_order({1}), (std::vector<expert_id>{{0, 0}}));
}

TEST(placement_rollout, a_router_that_joins_holds_releases_back) {
  placement_rollout rollout;
  rollout.set_layers({1});
  rollout.add_host({1}, 8, experts_below(1));
  rollout.add_host({2}, 8, experts_below(1));
  rollout.retarget({{{0, 0}, {{1}}}});
  rollout.route(1, 1);
  EXPECT_EQ(rollout.hosts_with_orders(), std::set<worker_id>{{2}});
  rollout.add_router({100});
  EXPECT_TRUE(rollout.hosts_with_orders().empty());
  EXPECT_EQ(rollout.next_order({2}), std::nullopt);
  rollout.remove_router({100});
  EXPECT_EQ(rollout.hosts_with_orders(), std::set<worker_id>{{2}});
}

TEST(placement_rollout, the_last_copy_is_kept_while_the_new_host_has_died_and_nothing_is_published) {
  placement_rollout rollout;
  rollout.set_layers({1});
  rollout.add_host({1}, 8, experts_below(1));
  rollout.add_host({2}, 8, experts_below(1));
  rollout.retarget({{{0, 0}, {{2}}}});
  rollout.route(1, 1);
  EXPECT_EQ(rollout.hosts_with_orders(), std::set<worker_id>{{1}}) << "nobody routes to it";
  rollout.remove_host({2});
  EXPECT_TRUE(rollout.hosts_with_orders().empty());
  EXPECT_EQ(rollout.route(1, 2).experts.layers[0]->experts[0].hosts, std::vector<worker_id>{{1}});
}

TEST(placement_rollout, orders_are_bounded_and_begin_with_what_nobody_hosts) {
  placement_rollout rollout;
  rollout.set_layers({100});
  rollout.add_host({1}, UINT64_MAX, experts_below(50));
  rollout.add_host({2}, UINT64_MAX, {});
  std::vector<expert_target> targets;
  for (auto expert : experts_below(100))
    targets.push_back({expert, {{2}}});
  rollout.retarget(targets);
  rollout.route(1, 1);
  const auto order = *rollout.next_order({2});
  ASSERT_EQ(order.size(), 64U);
  EXPECT_EQ(order[0], (expert_id{0, 0}));
  EXPECT_EQ(order[13], (expert_id{0, 13}));
  EXPECT_EQ(order[14], (expert_id{0, 50}))
      << "the fifty without a host, and as many others as may come along";
}

TEST(placement_rollout, a_host_that_comes_back_is_not_taken_for_the_one_that_was_routed_to) {
  placement_rollout rollout;
  rollout.set_layers({1});
  rollout.add_host({1}, 8, experts_below(1));
  rollout.retarget({{{0, 0}, {{1}}}});
  rollout.route(1, 1);
  rollout.remove_host({1});
  rollout.add_host({2}, 8, experts_below(1));
  rollout.retarget({{{0, 0}, {{2}}}});
  rollout.route(1, 2);
  rollout.add_host({1}, 8, experts_below(1));
  EXPECT_EQ(rollout.hosts_with_orders(), std::set<worker_id>{{1}}) << "nobody routes to it, so it may let go";
}

TEST(placement_rollout, what_a_host_has_lost_and_loaded_again_is_kept_until_no_router_sends_there) {
  placement_rollout rollout;
  rollout.set_layers({1});
  rollout.add_router({100});
  rollout.add_host({1}, 8, experts_below(1));
  rollout.add_host({2}, 8, experts_below(1));
  rollout.retarget({{{0, 0}, {{1}}}});
  rollout.route(1, 1);
  rollout.confirmed({100}, 1);
  rollout.retarget({{{0, 0}, {{2}}}});
  rollout.reported({1}, {});
  rollout.route(1, 2);
  rollout.reported({1}, experts_below(1));
  EXPECT_TRUE(rollout.hosts_with_orders().empty());
  rollout.confirmed({100}, 2);
  EXPECT_EQ(rollout.hosts_with_orders(), std::set<worker_id>{{1}});
}

} // namespace
} // namespace troupe
