// Properties of every plan, on seeded clusters.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "tests/unit/actors/planner/planner_cases.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t num_seeds = 50;
constexpr planner_strategy strategies[] = {planner_strategy::fixed, planner_strategy::greedy,
                                           planner_strategy::anticorrelated, planner_strategy::replicated,
                                           planner_strategy::search};

class planner_properties : public testing::TestWithParam<planner_strategy> {};

TEST_P(planner_properties, hold_for_any_cluster) {
  for (std::uint32_t seed = 1; seed <= num_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto input = random_case(seed);
    const auto planned = plan(input, {GetParam(), {}});
    const auto hosts = carried_out(input, planned);

    EXPECT_EQ(planned.unplaced, std::vector<expert_id>{});
    std::map<worker_id, std::uint64_t> held;
    for (std::uint32_t layer = 0; layer < hosts.size(); ++layer)
      for (std::uint32_t expert = 0; expert < hosts[layer].size(); ++expert) {
        const auto& at = hosts[layer][expert];
        EXPECT_FALSE(at.empty()) << "expert " << expert << " of layer " << layer << " is lost";
        EXPECT_TRUE(std::is_sorted(at.begin(), at.end()));
        EXPECT_EQ(std::adjacent_find(at.begin(), at.end()), at.end()) << "two replicas on one host";
        EXPECT_LE(at.size(), input.constraints.max_replicas);
        for (auto id : at)
          ++held[id];
      }
    for (const auto& [id, count] : held) {
      const auto worker = std::find_if(input.workers.begin(), input.workers.end(),
                                       [id = id](const planner_worker& other) { return other.id == id; });
      ASSERT_NE(worker, input.workers.end()) << "host " << id.value << " is gone";
      EXPECT_LE(count, worker->max_experts);
      EXPECT_LE(count * 100, worker->memory_bytes);
      EXPECT_FALSE(input.constraints.drained.contains(id));
    }
    for (const auto& pin : input.constraints.pins)
      EXPECT_EQ(hosts[pin.expert.layer][pin.expert.index], pin.hosts);
    const auto again = plan(input, {GetParam(), {}});
    EXPECT_EQ(again.changes, planned.changes);
  }
}

TEST_P(planner_properties, give_single_experts_the_replicas_they_must_have) {
  for (std::uint32_t seed = 1; seed <= num_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto input = random_case(seed);
    dice random{seed + 1'000};
    for (auto& worker : input.workers) { // room for all experts on each
      worker.max_experts = 1'000;
      worker.memory_bytes = 1'000'000;
    }
    for (std::uint32_t layer = 0; layer < input.present.size(); ++layer)
      for (std::uint32_t expert = 0; expert < input.present[layer].size(); ++expert)
        if (random.below(4) == 0)
          input.constraints.more_replicas[{layer, expert}] = 1 + random.below(6);
    for (const auto& pin : input.constraints.pins)
      input.constraints.more_replicas.erase(pin.expert);
    const auto hosts = carried_out(input, plan(input, {GetParam(), {}}));
    const auto num_hosts = input.workers.size() - input.constraints.drained.size();
    for (const auto& [expert, count] : input.constraints.more_replicas)
      EXPECT_GE(hosts[expert.layer][expert.index].size(), std::min<std::size_t>(count, num_hosts))
          << "expert " << expert.index << " of layer " << expert.layer;
  }
}

INSTANTIATE_TEST_SUITE_P(strategies, planner_properties, testing::ValuesIn(strategies),
                         [](const auto& strategy) {
                           return std::to_string(static_cast<int>(strategy.param));
                         });

/// The draft that a plan leads to.
draft_placement draft_of(const planning_problem& problem, const planner_input& input,
                         const placement_plan& planned) {
  draft_placement draft{problem};
  const auto hosts = carried_out(input, planned);
  for (std::uint32_t layer = 0; layer < hosts.size(); ++layer)
    for (std::uint32_t expert = 0; expert < hosts[layer].size(); ++expert)
      for (host_index host = 0; host < problem.num_hosts(); ++host)
        if (!draft.is_pinned(layer, expert)
            && std::find(hosts[layer][expert].begin(), hosts[layer][expert].end(), problem.host(host).id)
                   != hosts[layer][expert].end())
          draft.add(host, layer, expert);
  return draft;
}

TEST(search_plan, makes_no_move_that_gains_less_than_it_costs) {
  std::uint32_t num_tried = 0;
  for (std::uint32_t seed = 1; seed <= num_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto input = random_case(seed);
    const auto planned = plan(input);
    const planning_problem problem{input};
    const auto baseline = repaired(problem);
    EXPECT_DOUBLE_EQ(planned.before.total_ns(), score(baseline).total_ns());
    EXPECT_LE(planned.after.total_ns(), planned.before.total_ns() * (1 + 1e-9));
    for (std::uint32_t layer = 0; layer < problem.num_layers(); ++layer)
      for (std::uint32_t expert = 0; expert < problem.num_experts(layer); ++expert) {
        auto without = draft_of(problem, input, planned);
        const auto now = without.hosts(layer)[expert];
        const auto before = baseline.hosts(layer)[expert];
        if (now == before
            || before.size() < std::min<std::size_t>(now.size(), problem.min_replicas(layer, expert)))
          continue;
        for (auto host : now)
          without.remove(host, layer, expert);
        bool is_possible = true;
        for (auto host : before)
          if (without.has_room(host, layer))
            without.add(host, layer, expert);
          else
            is_possible = false;
        if (!is_possible)
          continue;
        ++num_tried;
        EXPECT_GT(score(without).total_ns(), planned.after.total_ns())
            << "expert " << expert << " of layer " << layer << " moved for nothing";
      }
  }
  EXPECT_GT(num_tried, 100U);
}

TEST(search_plan, of_its_own_result_changes_nothing_where_moves_cost) {
  for (std::uint32_t seed = 1; seed <= num_seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    auto input = random_case(seed);
    input.costs.horizon_steps = 1;
    input.costs.load_ns = 1e12; // more than any layer takes
    input.present = carried_out(input, plan(input));
    const auto again = plan(input);
    EXPECT_EQ(again.after.loads, again.before.loads); // required by constraints
    EXPECT_LE(again.after.total_ns(), again.before.total_ns() * (1 + 1e-9));
  }
}

TEST(search_plan, stops_at_its_bound_with_a_valid_placement) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto input = random_case(seed);
    const auto planned = plan(input, {planner_strategy::search, {.max_evaluations = 0}});
    EXPECT_EQ(planned.search.num_evaluations, 0U);
    EXPECT_EQ(planned.unplaced, std::vector<expert_id>{});
    EXPECT_LE(planned.after.total_ns(), planned.before.total_ns() * (1 + 1e-9));
  }
}

TEST(plan, says_which_experts_nobody_has_room_for) {
  auto input = balance_case({{1, 2, 3}}, 2, 1);
  for (auto strategy : strategies) {
    const auto planned = plan(input, {strategy, {}});
    EXPECT_EQ(planned.unplaced.size(), 1U) << to_string(strategy);
    EXPECT_EQ(planned.changes.size(), 2U) << to_string(strategy);
  }
}

TEST(plan, without_hosts_or_experts_is_empty) {
  auto without_hosts = balance_case({{1, 2}}, 0, 1);
  planner_input without_experts;
  without_experts.workers = {{{1}}};
  for (auto strategy : strategies) {
    EXPECT_EQ(plan(without_hosts, {strategy, {}}).changes, std::vector<expert_target>{});
    EXPECT_EQ(plan(without_hosts, {strategy, {}}).unplaced, (std::vector<expert_id>{{0, 0}, {0, 1}}));
    EXPECT_EQ(plan(without_experts, {strategy, {}}).changes, std::vector<expert_target>{});
  }
}

TEST(plan, takes_damaged_numbers_for_nothing_known) {
  auto input = balance_case({{1, 2, 3, 4}}, 2, 2);
  const auto expected = plan(balance_case({{0, 0, 0, 0}}, 2, 2));
  input.workers[0].speed = 0;
  input.history.windows = {{{{1, 2}}, 1, 1}, {{{1, 2, 3, 4}}, -1, 1}};
  EXPECT_EQ(plan(input).changes, expected.changes);
}

} // namespace
} // namespace troupe
