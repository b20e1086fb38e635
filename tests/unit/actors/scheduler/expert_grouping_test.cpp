// Experts that the same tokens choose share a group.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include "actors/scheduler/expert_grouping.hpp"
#include "tests/unit/actors/scheduler/dice.hpp"

namespace troupe {
namespace {

std::vector<uint32_t> all(uint32_t num_experts) {
  std::vector<uint32_t> result(num_experts);
  std::iota(result.begin(), result.end(), 0);
  return result;
}

double load_of(const coactivation& counts, const std::vector<uint32_t>& group) {
  double result = 0;
  for (auto expert : group)
    result += counts.load(expert);
  return result;
}

TEST(expert_grouping, counts_are_symmetric_and_bounded) {
  coactivation counts{3};
  counts.add(0, 2, 5);
  counts.add(2, 0, 1);
  counts.add(1, 1, 7);
  counts.add(3, 0, 9);
  EXPECT_EQ(counts.between(0, 2), 6);
  EXPECT_EQ(counts.between(2, 0), 6);
  EXPECT_EQ(counts.load(1), 7);
  EXPECT_EQ(counts.load(0), 0);
}

TEST(expert_grouping, finds_cliques) {
  coactivation counts{12};
  for (uint32_t a = 0; a < 12; ++a)
    for (uint32_t b = a; b < 12; ++b)
      counts.add(a, b, a % 3 == b % 3 ? 10 : 2);
  EXPECT_EQ(group_experts(counts, all(12), {4, 4, 4}),
            (std::vector<std::vector<uint32_t>>{{0, 3, 6, 9}, {1, 4, 7, 10}, {2, 5, 8, 11}}));
  EXPECT_EQ(group_experts(counts, {1, 2, 4, 5}, {2, 2}), (std::vector<std::vector<uint32_t>>{{1, 4}, {2, 5}}))
      << "of some experts";
}

TEST(expert_grouping, exchanges_what_a_first_choice_has_put_wrong) {
  coactivation counts{6};
  counts.add(0, 0, 1); // the first choice begins with it, and takes 1 and 2
  counts.add(0, 1, 10);
  counts.add(0, 2, 9);
  counts.add(0, 5, 8);
  counts.add(2, 3, 8);
  counts.add(2, 4, 8);
  EXPECT_EQ(group_experts(counts, all(6), {3, 3}, 2),
            (std::vector<std::vector<uint32_t>>{{0, 1, 5}, {2, 3, 4}}));
}

TEST(expert_grouping, keeps_loads_even_rather_than_friends_together) {
  // Two busy experts that fire together would make one group three times as loaded as the other.
  coactivation counts{4};
  for (uint32_t expert = 0; expert < 4; ++expert)
    counts.add(expert, expert, expert < 2 ? 30 : 10);
  counts.add(0, 1, 25);
  const auto groups = group_experts(counts, all(4), {2, 2});
  for (const auto& group : groups)
    EXPECT_EQ(load_of(counts, group), 40);
  const auto skewed = group_experts(counts, all(4), {2, 2}, 2);
  EXPECT_EQ(skewed.front(), (std::vector<uint32_t>{0, 1})) << "where that is allowed";
}

TEST(expert_grouping, property_every_expert_once_in_groups_of_the_sizes_asked_for_and_better_than_chance) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    dice random{seed};
    const uint32_t num_experts = 8 + random.below(57);
    const uint32_t num_topics = 2 + random.below(6);
    coactivation counts{num_experts};
    for (int token = 0; token < 2000; ++token) {
      const auto topic = random.below(num_topics);
      std::vector<uint32_t> chosen;
      for (int choice = 0; choice < 4; ++choice) {
        auto expert = random.below(num_experts);
        if (random.below(4) != 0)
          expert = (topic + expert / num_topics * num_topics) % num_experts;
        if (std::find(chosen.begin(), chosen.end(), expert) == chosen.end())
          chosen.push_back(expert);
      }
      for (size_t a = 0; a < chosen.size(); ++a)
        for (size_t b = a; b < chosen.size(); ++b)
          counts.add(chosen[a], chosen[b], 1);
    }
    const uint32_t num_groups = 2 + random.below(6);
    std::vector<uint32_t> sizes(num_groups, num_experts / num_groups);
    for (uint32_t group = 0; group < num_experts % num_groups; ++group)
      ++sizes[group];
    const auto groups = group_experts(counts, all(num_experts), sizes);
    ASSERT_EQ(groups.size(), num_groups);
    std::vector<uint32_t> seen;
    double within = 0;
    double by_chance = 0;
    for (size_t group = 0; group < num_groups; ++group) {
      ASSERT_EQ(groups[group].size(), sizes[group]);
      seen.insert(seen.end(), groups[group].begin(), groups[group].end());
      for (auto a : groups[group])
        for (auto b : groups[group])
          within += a < b ? counts.between(a, b) : 0;
    }
    for (uint32_t a = 0; a < num_experts; ++a)
      for (uint32_t b = a + 1; b < num_experts; ++b)
        by_chance += counts.between(a, b) / static_cast<float>(num_groups);
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, all(num_experts));
    EXPECT_GT(within, 1.1 * by_chance);
    EXPECT_EQ(group_experts(counts, all(num_experts), sizes), groups) << "the same again";
  }
}

TEST(expert_grouping, of_nothing_is_nothing) {
  EXPECT_TRUE(group_experts(coactivation{4}, {}, {}).empty());
  EXPECT_EQ(group_experts(coactivation{4}, {2}, {1}), (std::vector<std::vector<uint32_t>>{{2}}));
}

} // namespace
} // namespace troupe
