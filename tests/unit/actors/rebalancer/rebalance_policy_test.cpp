// When the rebalancer plans automatically.
#include "actors/rebalancer/rebalance_policy.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;

class rebalance_policy_test : public ::testing::Test {
 protected:
  rebalance_policy_test() {
    seen.hosts = {{1}, {2}};
    seen.is_settled = true;
    look(); // knows its workers
  }

  std::optional<std::string> look(std::chrono::milliseconds later = 1s) {
    time += later;
    return policy.should_plan(seen, time);
  }

  /// A look with new windows.
  std::optional<std::string> judge(double imbalance) {
    ++seen.windows;
    seen.imbalance = imbalance;
    return look(5s);
  }

  rebalance_policy policy;
  rebalance_policy::look seen;
  rebalance_policy::time_point time{};
};

TEST_F(rebalance_policy_test, an_imbalance_must_last) {
  EXPECT_FALSE(judge(2));
  EXPECT_FALSE(judge(2));
  EXPECT_FALSE(judge(1.0));
  EXPECT_FALSE(judge(2));
  EXPECT_FALSE(judge(2));
  EXPECT_FALSE(look(5s)) << "nothing new has been counted";
  EXPECT_EQ(judge(2), "imbalance");
}

TEST_F(rebalance_policy_test, a_small_imbalance_is_none) {
  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(judge(1.14));
}

TEST_F(rebalance_policy_test, nothing_is_planned_while_anything_moves) {
  seen.is_planning = true;
  for (int i = 0; i < 5; ++i)
    EXPECT_FALSE(judge(2));
  seen.is_planning = false;
  seen.is_settled = false;
  EXPECT_FALSE(judge(2));
  seen.is_settled = true;
  EXPECT_EQ(judge(2), "imbalance");
}

TEST_F(rebalance_policy_test, a_change_cools_down) {
  judge(2), judge(2);
  EXPECT_EQ(judge(2), "imbalance");
  policy.planned(true, time);
  EXPECT_FALSE(judge(2));
  EXPECT_FALSE(judge(2));
  EXPECT_EQ(judge(2), "imbalance") << "three looks, 15 s";
}

TEST_F(rebalance_policy_test, after_a_useless_plan_only_more_imbalance_or_time_make_another) {
  judge(2), judge(2);
  EXPECT_EQ(judge(2), "imbalance");
  policy.planned(false, time);
  for (int i = 0; i < 11; ++i)
    EXPECT_FALSE(judge(2)) << i;
  EXPECT_EQ(judge(2), "imbalance") << "60 s later";
  policy.planned(false, time);
  EXPECT_FALSE(judge(2.3));
  EXPECT_FALSE(judge(2.3));
  EXPECT_EQ(judge(2.3), "imbalance") << "a tenth more";
}

TEST_F(rebalance_policy_test, workers_that_come_and_go_are_planned_for_once_all_is_quiet) {
  seen.hosts = {{1}, {2}, {3}};
  seen.is_settled = false;
  EXPECT_FALSE(look());
  EXPECT_FALSE(look());
  seen.is_settled = true;
  EXPECT_EQ(look(), "a worker has joined");
  EXPECT_FALSE(look());
  seen.hosts = {{1}, {3}};
  EXPECT_FALSE(look(100ms)) << "more may come";
  EXPECT_EQ(look(), "a worker is gone");
}

TEST_F(rebalance_policy_test, the_first_workers_are_no_news_without_a_history) {
  rebalance_policy fresh;
  EXPECT_FALSE(fresh.should_plan(seen, time));
  EXPECT_FALSE(fresh.should_plan(seen, time + 10s));
}

TEST_F(rebalance_policy_test, a_plan_must_gain_three_percent) {
  EXPECT_TRUE(policy.is_worth_it(100, 97));
  EXPECT_FALSE(policy.is_worth_it(100, 97.1));
  EXPECT_FALSE(policy.is_worth_it(0, 0));
}

} // namespace
} // namespace troupe
