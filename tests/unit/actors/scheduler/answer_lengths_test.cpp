// Learning the lengths of answers: of ended ones, of cut ones, by tenant.
#include "actors/scheduler/answer_lengths.hpp"

#include <gtest/gtest.h>

#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t no_limit = 1'000'000;

answer_lengths learning(double quantile = 0.8) {
  return answer_lengths{{.quantile = quantile, .prior_tokens = 1000}};
}

void observe(answer_lengths& lengths, int count, std::uint32_t num_tokens, bool is_cut = false,
             const std::string& tenant = "a") {
  for (int i = 0; i < count; ++i)
    lengths.observe(tenant, num_tokens, is_cut);
}

TEST(answer_lengths, begins_with_the_prior_and_never_exceeds_the_limit) {
  const auto lengths = learning();
  EXPECT_EQ(lengths.likely(), 1000U);
  EXPECT_EQ(lengths.likely("a", no_limit), 1000U);
  EXPECT_EQ(lengths.likely("a", 16), 16U);
  EXPECT_LT(learning(0.5).likely(), 500U) << "half of them are shorter";
}

TEST(answer_lengths, learns_what_answers_are_like) {
  auto lengths = learning();
  observe(lengths, 10, 50);
  EXPECT_LT(lengths.likely("a", no_limit), 500U) << "ten say something already";
  observe(lengths, 200, 50);
  EXPECT_GE(lengths.likely("a", no_limit), 45U);
  EXPECT_LE(lengths.likely("a", no_limit), 60U) << "within a bucket of it";
  EXPECT_EQ(lengths.likely("a", 20), 20U);
}

TEST(answer_lengths, is_enough_for_the_share_of_answers_that_was_asked_for) {
  for (const double quantile : {0.5, 0.8, 0.95}) {
    SCOPED_TRACE(quantile);
    auto lengths = learning(quantile);
    dice random{7};
    int num_fitting = 0;
    int num_seen = 0;
    for (int i = 0; i < 5000; ++i) {
      const std::uint32_t length = 1 + random.below(100) + (random.below(10) == 0 ? random.below(2000) : 0);
      if (i > 300) {
        ++num_seen;
        num_fitting += length <= lengths.likely("a", no_limit) ? 1 : 0;
      }
      lengths.observe("a", length, false);
    }
    EXPECT_NEAR(static_cast<double>(num_fitting) / num_seen, quantile, 0.05);
  }
}

TEST(answer_lengths, follows_a_change_and_forgets_what_was_before) {
  auto lengths = learning();
  observe(lengths, 1000, 500);
  EXPECT_GE(lengths.likely("a", no_limit), 430U) << "within a bucket of it";
  observe(lengths, 600, 20);
  EXPECT_GT(lengths.likely("a", no_limit), 20U) << "a fifth of what is remembered is older";
  observe(lengths, 400, 20);
  EXPECT_LE(lengths.likely("a", no_limit), 24U);
  observe(lengths, 300, 500);
  EXPECT_GE(lengths.likely("a", no_limit), 430U) << "within a bucket of it";
}

TEST(answer_lengths, a_cut_answer_says_that_it_would_have_been_longer) {
  auto lengths = learning();
  observe(lengths, 500, 16, true);
  EXPECT_GE(lengths.likely("a", no_limit), 1000U) << "nobody knows how long they would have been";
  EXPECT_EQ(lengths.likely("a", 16), 16U);
  // Uncut ones ended at 100: that is the likely length of the cut ones.
  for (int i = 0; i < 500; ++i) {
    observe(lengths, 1, 16, true);
    observe(lengths, 1, 100);
  }
  EXPECT_GE(lengths.likely("a", no_limit), 90U);
  EXPECT_LE(lengths.likely("a", no_limit), 120U);
}

TEST(answer_lengths, tenants_are_told_apart_and_a_new_one_is_taken_for_all) {
  auto lengths = learning();
  for (int i = 0; i < 300; ++i) {
    observe(lengths, 1, 10, false, "short");
    observe(lengths, 1, 2000, false, "long");
  }
  EXPECT_LE(lengths.likely("short", no_limit), 12U);
  EXPECT_GE(lengths.likely("long", no_limit), 1700U);
  EXPECT_EQ(lengths.likely("new", no_limit), lengths.likely());
  EXPECT_GE(lengths.likely(), 1700U) << "half of all are so long";
}

TEST(answer_lengths, nothing_is_estimated_where_all_is_to_be_set_aside) {
  auto lengths = learning(1);
  observe(lengths, 300, 10);
  EXPECT_EQ(lengths.likely("a", no_limit), no_limit);
}

TEST(answer_lengths, tenants_are_bounded_and_the_quietest_is_forgotten) {
  auto lengths = learning();
  observe(lengths, 50, 5, false, "first");
  observe(lengths, 50, 5, false, "second");
  const auto known = lengths.likely("second", no_limit);
  EXPECT_LE(known, 8U);
  for (std::size_t i = 0; i + 2 < defaults::max_known_tenants; ++i) {
    observe(lengths, 1, 3000, false, "t" + std::to_string(i));
    if (i == 100)
      observe(lengths, 1, 5, false, "first");
  }
  EXPECT_LT(lengths.likely("second", no_limit), 100U) << "there is room for as many";
  observe(lengths, 1, 3000, false, "one more");
  EXPECT_EQ(lengths.likely("second", no_limit), lengths.likely());
  EXPECT_LT(lengths.likely("first", no_limit), 100U);
}

} // namespace
} // namespace troupe
