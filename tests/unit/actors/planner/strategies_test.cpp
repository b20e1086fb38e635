// Small cases of single strategies, with the results of their papers' rules.
#include <gtest/gtest.h>

#include "actors/planner/anticorrelated_placement.hpp"
#include "actors/planner/greedy_placement.hpp"
#include "actors/planner/replicated_placement.hpp"
#include "actors/planner/static_placement.hpp"
#include "tests/unit/actors/planner/planner_cases.hpp"

namespace troupe {
namespace {

TEST(static_placement, gives_each_host_a_run_of_indices) {
  const planning_problem problem{balance_case({{9, 1, 1, 1, 1, 1, 1}}, 3, 3)};
  EXPECT_EQ(static_placement(problem).hosts(0), (layer_hosts{{0}, {0}, {0}, {1}, {1}, {2}, {2}}));
}

TEST(static_placement, shares_out_by_what_hosts_can_hold) {
  auto input = balance_case({{1, 1, 1, 1, 1, 1}}, 2, 4);
  input.workers[0].max_experts = 2;
  EXPECT_EQ(static_placement(planning_problem{input}).hosts(0), (layer_hosts{{0}, {0}, {1}, {1}, {1}, {1}}));
}

TEST(greedy_placement, puts_the_hottest_first_where_least_is) {
  // 8 to host 0, 7 to 1, 6 to 1, 5 to 0, 4 to 0 (13 and 13: the first), 3 to 1, 2 to 1 (16), 1 to 0.
  const planning_problem problem{balance_case({{1, 2, 3, 4, 5, 6, 7, 8}}, 2, 4)};
  EXPECT_EQ(greedy_placement(problem).hosts(0), (layer_hosts{{0}, {1}, {1}, {0}, {0}, {1}, {1}, {0}}));
}

TEST(greedy_placement, gives_each_host_the_same_number) {
  const planning_problem problem{balance_case({{100, 1, 1, 1}}, 2, 4)};
  EXPECT_EQ(greedy_placement(problem).hosts(0), (layer_hosts{{0}, {1}, {1}, {0}}));
}

TEST(greedy_placement, loads_a_host_by_its_speed) {
  auto input = balance_case({{4, 4, 4, 4}}, 2, 4);
  input.workers[1].speed = 4;
  input.constraints.max_layer_experts = 4;
  // 4 to host 0, then host 1 would have 1, 2, ...: its quota of two, then host 0's.
  EXPECT_EQ(greedy_placement(planning_problem{input}).hosts(0), (layer_hosts{{0}, {1}, {1}, {0}}));
}

TEST(anticorrelated_placement, parts_what_is_busy_together) {
  // Experts 0 and 2 are busy in the same windows, and so are 1 and 3. All have the same mean, so greedy would
  // put 0 and 2 on host 0.
  const planning_problem problem{balance_case({{4, 1, 4, 1}, {1, 4, 1, 4}}, 2, 2)};
  EXPECT_EQ(greedy_placement(problem).hosts(0), (layer_hosts{{0}, {1}, {0}, {1}}));
  EXPECT_EQ(anticorrelated_placement(problem).hosts(0), (layer_hosts{{0}, {0}, {1}, {1}}));
}

TEST(anticorrelated_placement, knows_pearsons_coefficient) {
  const planning_problem problem{balance_case({{2, 2, 4, 2}, {4, 2, 2, 2}}, 2, 2)};
  const auto found = expert_correlations(problem, 0);
  EXPECT_NEAR(found[0 * 4 + 0], 1, 1e-12);
  EXPECT_NEAR(found[0 * 4 + 2], -1, 1e-12);
  EXPECT_EQ(found[0 * 4 + 1], 0); // which never varies
}

TEST(replica_counts, go_to_the_most_load_for_each_replica) {
  EXPECT_EQ(replica_counts({90, 40, 10}, 6, 1, 8), (std::vector<std::uint32_t>{3, 2, 1}));
  EXPECT_EQ(replica_counts({90, 40, 10}, 6, 1, 2), (std::vector<std::uint32_t>{2, 2, 2}));
  EXPECT_EQ(replica_counts({90, 40, 10}, 2, 1, 8), (std::vector<std::uint32_t>{1, 1, 1}));
}

struct published_part {
  std::vector<std::uint32_t> experts;              // of the example's layer
  std::vector<float> weights;                      // of those
  std::vector<std::vector<std::uint32_t>> devices; // the experts of each of a node's four devices
};

class eplb_example : public testing::TestWithParam<published_part> {};

// The example in EPLB's README: two layers of 12 experts, 16 replicas on two nodes of four devices with two
// places each. It first divides groups of experts among nodes; within a node it works like ours.
TEST_P(eplb_example, has_its_published_result) {
  const auto& part = GetParam();
  const planning_problem problem{balance_case({part.weights}, 4, 2)};
  const auto draft = replicated_placement(problem);
  std::vector<std::vector<std::uint32_t>> devices(4);
  for (std::uint32_t expert = 0; expert < part.experts.size(); ++expert)
    for (auto host : draft.hosts(0)[expert])
      devices[host].push_back(part.experts[expert]);
  for (auto& device : devices)
    std::sort(device.begin(), device.end());
  EXPECT_EQ(devices, part.devices);
}

INSTANTIATE_TEST_SUITE_P(
    nodes, eplb_example,
    testing::Values(
        published_part{{3, 4, 5, 6, 7, 8}, {61, 104, 165, 39, 4, 73}, {{5, 6}, {5, 7}, {4, 8}, {3, 4}}},
        published_part{{9, 10, 11, 0, 1, 2}, {56, 183, 86, 90, 132, 40}, {{9, 10}, {2, 10}, {0, 1}, {1, 11}}},
        published_part{{6, 7, 8, 9, 10, 11}, {187, 157, 172, 86, 16, 27}, {{7, 10}, {6, 8}, {6, 11}, {8, 9}}},
        published_part{{0, 1, 2, 3, 4, 5}, {20, 107, 104, 64, 19, 197}, {{2, 4}, {1, 5}, {0, 5}, {1, 3}}}));

} // namespace
} // namespace troupe
