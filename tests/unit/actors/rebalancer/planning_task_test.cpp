// Planning tasks made from fleet, history and orders.
#include "actors/rebalancer/planning_task.hpp"

#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include "actors/protocol/activation_window.hpp"

namespace troupe {
namespace {

constexpr auto any_number = std::numeric_limits<std::uint64_t>::max();

class planning_task_test : public ::testing::Test {
 protected:
  planning_task_test() {
    hosts.layer_experts = {4};
    hosts.expert_bytes = 100;
    hosts.small_cluster = 8;
    hosts.target = {{{{1}}, {{1}}, {{2}}, {{2}}}};
    add_host(1);
    add_host(2);
    history.fingerprint = "model";
    history.layer_experts = {4};
    history.half_life_ms = 1000;
    history.decayed = {{0, 0, 0, 0}};
  }

  void add_host(std::uint64_t id, std::uint64_t max_experts = any_number) {
    hosts.hosts.push_back({{id}, "expert-" + std::to_string(id), max_experts, {}, false});
  }

  /// Ten steps with the given rows of each expert.
  void count(std::vector<std::uint64_t> rows) {
    activation_window window;
    window.duration_ms = 1000;
    window.counts.micro_batches = 10;
    for (auto& one : rows)
      one *= 10;
    for (std::size_t expert = 0; expert < rows.size(); ++expert)
      history.decayed[0][expert] += static_cast<double>(rows[expert]);
    window.counts.rows = {std::move(rows)};
    history.windows.push_back({{7}, history.windows.size() + 1, 0, encode(window)});
  }

  planning_answer plan(planning_task::goal what) {
    task.what = what;
    task.hosts = std::make_shared<const fleet>(hosts);
    task.history = history;
    return carry_out(task, settings);
  }

  fleet hosts;
  history_snapshot history;
  planning_task task;
  planning_settings settings;
};

TEST_F(planning_task_test, a_look_says_how_uneven_the_load_is) {
  count({1000, 1000, 1000, 1000});
  auto answer = plan(planning_task::goal::look);
  EXPECT_NEAR(answer.before.busiest_ns / answer.before.even_ns, 1, 1e-9);
  history.windows.clear();
  history.decayed = {{0, 0, 0, 0}};
  count({1000, 1000, 0, 0});
  answer = plan(planning_task::goal::look);
  EXPECT_NEAR(answer.before.busiest_ns / answer.before.even_ns, 2, 1e-9);
  EXPECT_TRUE(answer.steps.empty());
}

TEST_F(planning_task_test, a_search_takes_busy_experts_apart) {
  count({1000, 1000, 0, 0});
  const auto answer = plan(planning_task::goal::search);
  ASSERT_FALSE(answer.steps.empty());
  EXPECT_LT(answer.after.step_ns, 0.6 * answer.before.step_ns);
  EXPECT_EQ(answer.bytes, answer.moves * 100);
  for (const auto& step : answer.steps)
    EXPECT_EQ(step.from, hosts.target[0][step.expert.index]);
}

TEST_F(planning_task_test, a_slow_host_is_relieved) {
  count({100, 100, 100, 100});
  EXPECT_TRUE(plan(planning_task::goal::search).steps.empty());
  task.speed = [](worker_id id) { return id.value == 1 ? 0.2 : 1.0; };
  const auto answer = plan(planning_task::goal::search);
  ASSERT_FALSE(answer.steps.empty());
  EXPECT_LT(answer.after.step_ns, answer.before.step_ns);
}

TEST_F(planning_task_test, a_new_worker_gets_a_share_in_a_small_cluster) {
  count({500, 500, 500, 500});
  add_host(3);
  const auto answer = plan(planning_task::goal::search);
  EXPECT_TRUE(std::any_of(answer.steps.begin(), answer.steps.end(), [](const placement_step& step) {
    return std::find(step.to.begin(), step.to.end(), worker_id{3}) != step.to.end();
  }));
}

TEST_F(planning_task_test, orders_ask_for_the_least) {
  count({1000, 1000, 0, 0}); // uneven, but the task does not depend on it
  task.orders.drained = {"expert-2"};
  add_host(3);
  auto answer = plan(planning_task::goal::obey);
  EXPECT_EQ(answer.flaw, "");
  ASSERT_EQ(answer.steps.size(), 2U);
  for (const auto& step : answer.steps) {
    EXPECT_EQ(step.from, (std::vector<worker_id>{{2}}));
    EXPECT_TRUE(step.to == std::vector<worker_id>{{1}} || step.to == std::vector<worker_id>{{3}});
  }
  EXPECT_EQ(answer.moves, 2U);
  task.orders = {};
  task.orders.pins[{0, 0}] = {"expert-2", "expert-3"};
  answer = plan(planning_task::goal::obey);
  EXPECT_EQ(answer.steps, (std::vector<placement_step>{{{0, 0}, {{1}}, {{2}, {3}}}}));
}

TEST_F(planning_task_test, replicas_come_and_go) {
  count({1000, 10, 10, 10});
  task.orders.replicas[{0, 0}] = 2;
  task.exact_replicas = expert_id{0, 0};
  EXPECT_EQ(plan(planning_task::goal::obey).steps,
            (std::vector<placement_step>{{{0, 0}, {{1}}, {{1}, {2}}}}));
  hosts.target[0][0] = {{1}, {2}};
  EXPECT_TRUE(plan(planning_task::goal::obey).steps.empty());
  task.orders.replicas[{0, 0}] = 1;
  const auto answer = plan(planning_task::goal::obey);
  ASSERT_EQ(answer.steps.size(), 1U);
  EXPECT_EQ(answer.steps[0].to.size(), 1U);
  EXPECT_EQ(answer.moves, 0U);
}

TEST_F(planning_task_test, what_has_no_room_is_refused) {
  hosts.hosts.clear();
  add_host(1, 2);
  add_host(2, 2);
  task.wanted = {{{0, 2}, {{1}}}};
  EXPECT_EQ(plan(planning_task::goal::assign).flaw, "expert-1 has room for 2 experts, and would hold 3");
  task.wanted = {{{0, 2}, {{1}}}, {{0, 0}, {{2}}}};
  EXPECT_EQ(plan(planning_task::goal::assign).flaw, "") << "they change places";
  task.orders.drained = {"expert-2"};
  EXPECT_EQ(plan(planning_task::goal::obey).flaw, "2 experts would have no host");
  EXPECT_EQ(room_of(hosts), (std::map<worker_id, std::uint64_t>{{{1}, 0}, {{2}, 0}}));
}

TEST_F(planning_task_test, an_assignment_is_predicted_and_described) {
  count({1000, 1000, 0, 0});
  task.wanted = {{{0, 0}, {{1}}}, {{0, 1}, {{2}}}};
  const auto answer = plan(planning_task::goal::assign);
  EXPECT_EQ(answer.steps, (std::vector<placement_step>{{{0, 1}, {{1}}, {{2}}}}))
      << "expert 0 is there already";
  EXPECT_NEAR(answer.after.step_ns / answer.before.step_ns, 0.5, 0.01);
  EXPECT_EQ(answer.bytes, 100U);
}

TEST_F(planning_task_test, a_history_of_another_model_is_ignored) {
  history.layer_experts = {8};
  EXPECT_TRUE(plan(planning_task::goal::search).steps.empty());
}

} // namespace
} // namespace troupe
