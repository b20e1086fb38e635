#include "actors/attention/lateness_policy.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr std::int64_t in_a_window = defaults::hedge_window / defaults::batches_per_hedge;

// Hedges whatever may be hedged while `num_batches` are sent.
std::int64_t hedged_of(lateness_policy& policy, std::int64_t num_batches) {
  std::int64_t result = 0;
  for (std::int64_t i = 0; i < num_batches; ++i) {
    policy.sent();
    if (policy.may_hedge()) {
      policy.hedged(1);
      ++result;
    }
  }
  return result;
}

TEST(lateness_policy, hedges_one_batch_in_ten) {
  lateness_policy policy;
  EXPECT_EQ(hedged_of(policy, in_a_window), in_a_window) << "what was saved, at once";
  EXPECT_EQ(hedged_of(policy, 10'000), 1000 + 1) << "these earned some, too";
}

TEST(lateness_policy, saves_hedges_of_one_window) {
  lateness_policy policy;
  for (int i = 0; i < 100'000; ++i)
    policy.sent();
  std::int64_t saved = 0;
  for (; policy.may_hedge(); ++saved)
    policy.hedged(1);
  EXPECT_EQ(saved, in_a_window);
}

TEST(lateness_policy, hedges_beyond_the_budget_are_paid_back) {
  lateness_policy policy;
  policy.hedged(in_a_window + 2);
  for (int i = 0; i < 29; ++i)
    policy.sent();
  EXPECT_FALSE(policy.may_hedge());
  policy.sent();
  EXPECT_TRUE(policy.may_hedge());
}

TEST(lateness_policy, expects_the_mean_of_batches_or_of_their_rows) {
  lateness_policy policy;
  EXPECT_EQ(policy.expected(1), defaults::unmeasured_expert_batch);
  policy.answered(10, 10ms);
  EXPECT_EQ(policy.expected(1), 10ms) << "as long as a whole batch";
  EXPECT_EQ(policy.expected(30), 30ms) << "in proportion to its rows";
  policy.answered(10, 18ms);
  EXPECT_EQ(policy.expected(1), 11ms) << "a new measurement counts an eighth";
  EXPECT_EQ(policy.hedge_after(1), 55ms);
}

TEST(lateness_policy, waits_within_bounds) {
  lateness_policy policy;
  policy.answered(1, 1ms);
  EXPECT_EQ(policy.hedge_after(1), defaults::hedge_min);
  EXPECT_EQ(policy.patience(1, 0), defaults::expert_batch_timeout);
  EXPECT_EQ(policy.patience(4000, 0), 20s) << "five times what is expected";
  EXPECT_EQ(policy.patience(1'000'000, 0), defaults::unhosted_wait);
  EXPECT_EQ(policy.patience(1, 3), 8 * defaults::expert_batch_timeout);
  EXPECT_EQ(policy.patience(1, 1000), 16 * defaults::expert_batch_timeout);
}

} // namespace
} // namespace troupe
