#include "actors/attention/hedge_budget.hpp"

#include <cstdint>

#include <gtest/gtest.h>

#include "actors/defaults.hpp"

namespace troupe {
namespace {

constexpr int64_t in_a_window = defaults::hedge_window / defaults::batches_per_hedge;

// Hedges whatever may be hedged while `num_batches` are sent.
int64_t hedged_of(hedge_budget& budget, int64_t num_batches) {
  int64_t result = 0;
  for (int64_t i = 0; i < num_batches; ++i) {
    budget.earn();
    if (budget.is_left()) {
      budget.spend(1);
      ++result;
    }
  }
  return result;
}

TEST(hedge_budget_test, allows_one_batch_in_ten) {
  hedge_budget budget;
  EXPECT_EQ(hedged_of(budget, in_a_window), in_a_window) << "what was saved, at once";
  EXPECT_EQ(hedged_of(budget, 10'000), 1000 + 1) << "these earned some, too";
}

TEST(hedge_budget_test, saves_for_one_window) {
  hedge_budget budget;
  for (int i = 0; i < 100'000; ++i)
    budget.earn();
  int64_t saved = 0;
  for (; budget.is_left(); ++saved)
    budget.spend(1);
  EXPECT_EQ(saved, in_a_window);
}

TEST(hedge_budget_test, what_was_spent_beyond_it_is_paid_back) {
  hedge_budget budget;
  budget.spend(in_a_window + 2);
  for (int i = 0; i < 29; ++i)
    budget.earn();
  EXPECT_FALSE(budget.is_left());
  budget.earn();
  EXPECT_TRUE(budget.is_left());
}

} // namespace
} // namespace troupe
