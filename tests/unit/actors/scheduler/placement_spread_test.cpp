// The cost of spreading a layer.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "actors/scheduler/placement_spread.hpp"

namespace troupe {
namespace {

TEST(placement_spread, counts_the_hosts_that_rows_touch) {
  EXPECT_DOUBLE_EQ(expected_hosts_touched(4, 2, 1, 1), 1);
  // Both of a row's experts are on one host in 2 of 6 pairs.
  EXPECT_DOUBLE_EQ(expected_hosts_touched(4, 2, 1, 2), 2 - 2.0 / 6);
  // Hosts with 2, 1 and 1 experts.
  EXPECT_DOUBLE_EQ(expected_hosts_touched(4, 3, 2, 1), (1 - 0.25) + 2 * (1 - 0.5625));
  EXPECT_DOUBLE_EQ(expected_hosts_touched(4, 8, 1, 4), 4) << "no more than there are experts";
  EXPECT_DOUBLE_EQ(expected_hosts_touched(2, 2, 1, 8), 2) << "rows choose what there is";
  EXPECT_DOUBLE_EQ(expected_hosts_touched(0, 5, 64, 8), 0);
}

TEST(placement_spread, counts_the_active_experts_of_the_busiest_host) {
  EXPECT_DOUBLE_EQ(expected_max_active(4, 1, 1, 4), 4);
  // Two hosts of two experts, each active with probability a half.
  EXPECT_DOUBLE_EQ(expected_max_active(4, 2, 1, 2), (1 - 0.0625) + (1 - 0.5625));
  EXPECT_DOUBLE_EQ(expected_max_active(0, 5, 64, 8), 0);
}

TEST(placement_spread, agrees_with_routing_that_is_played) {
  constexpr std::uint32_t num_experts = 64;
  constexpr std::uint32_t num_rows = 8;
  constexpr std::uint32_t top_k = 4;
  constexpr int num_rounds = 4000;
  for (std::uint32_t num_hosts : {3U, 8U, 20U}) {
    std::mt19937 random{num_hosts};
    std::vector<std::uint32_t> experts(num_experts);
    std::iota(experts.begin(), experts.end(), 0);
    double touched = 0;
    double most = 0;
    for (int round = 0; round < num_rounds; ++round) {
      std::set<std::uint32_t> active;
      for (std::uint32_t row = 0; row < num_rows; ++row)
        for (std::uint32_t choice = 0; choice < top_k; ++choice) {
          std::swap(experts[choice], experts[choice + random() % (num_experts - choice)]);
          active.insert(experts[choice]);
        }
      std::vector<std::uint32_t> counts(num_hosts);
      for (auto expert : active)
        ++counts[expert % num_hosts];
      touched += static_cast<double>(num_hosts - std::count(counts.begin(), counts.end(), 0U)) / num_rounds;
      most += static_cast<double>(*std::max_element(counts.begin(), counts.end())) / num_rounds;
    }
    EXPECT_NEAR(expected_hosts_touched(num_experts, num_hosts, num_rows, top_k), touched, 0.02 * touched);
    EXPECT_NEAR(expected_max_active(num_experts, num_hosts, num_rows, top_k), most, 0.04 * most);
  }
}

TEST(placement_spread, is_the_cheapest_number_of_hosts) {
  const placement_workload workload;
  const auto spread = choose_spread(workload, 256, 1000);
  EXPECT_EQ(spread, (spread_range{12, 16, 21}));
  for (std::uint32_t hosts = 1; hosts <= 256; ++hosts) {
    EXPECT_GE(layer_cost_ns(workload, 256, hosts), layer_cost_ns(workload, 256, spread.best));
    const auto will_do =
        layer_cost_ns(workload, 256, hosts) <= 1.05 * layer_cost_ns(workload, 256, spread.best);
    EXPECT_EQ(will_do, spread.low <= hosts && hosts <= spread.high) << hosts;
  }
}

TEST(placement_spread, follows_costs_and_load) {
  placement_workload workload;
  const auto best = [&] { return choose_spread(workload, 256, 1000).best; };
  workload.costs.message_ns = 0;
  EXPECT_EQ(best(), 256U) << "messages cost nothing";
  workload = {};
  workload.costs.message_ns *= 4;
  EXPECT_LT(best(), 16U);
  workload = {};
  workload.costs.expert_ns *= 4;
  EXPECT_GT(best(), 16U);
}

TEST(placement_spread, uses_all_hosts_of_a_small_cluster_and_never_more_than_experts) {
  const placement_workload workload;
  for (std::uint32_t hosts = 1; hosts <= 8; ++hosts)
    EXPECT_EQ(choose_spread(workload, 256, hosts), (spread_range{hosts, hosts, hosts}));
  EXPECT_EQ(choose_spread(workload, 3, 8), (spread_range{3, 3, 3}));
  EXPECT_EQ(choose_spread(workload, 256, 10), (spread_range{10, 10, 10})) << "the more the better";
  EXPECT_EQ(choose_spread(workload, 8, 1000).best, 8U) << "as many as in a small cluster";
  EXPECT_EQ(choose_spread(workload, 0, 10), spread_range{});
  EXPECT_EQ(choose_spread(workload, 10, 0), spread_range{});
}

TEST(placement_spread, memory_asks_for_hosts) {
  const placement_workload workload;
  EXPECT_EQ(choose_spread(workload, 256, 1000, 8).low, 32U);
  EXPECT_EQ(choose_spread(workload, 256, 1000, 8).best, 32U);
  EXPECT_EQ(choose_spread(workload, 256, 20, 2), (spread_range{20, 20, 20})) << "as far as there are hosts";
}

} // namespace
} // namespace troupe
