// What gpu_check accepts as the same choice of experts.
#include "tests/gpu/expert_choice.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace troupe::gpu_check {

namespace {

using kernels::router_score;

using experts = std::vector<std::uint32_t>;

bool is_same(const experts& got, const experts& want, const std::vector<double>& keys,
             router_score score = router_score::softmax) {
  return is_same_choice(got, want, keys, nearness_of(score));
}

} // namespace

TEST(expert_choice, another_expert_is_wrong_where_keys_lie_apart) {
  const std::vector<double> keys = {0.4, 0.3, 0.2, 0.1};
  EXPECT_TRUE(is_same({0, 1}, {0, 1}, keys));
  EXPECT_FALSE(is_same({1, 0}, {0, 1}, keys));
  EXPECT_FALSE(is_same({0, 2}, {0, 1}, keys));
  EXPECT_FALSE(is_same({0, 2}, {0, 1}, {0.4, 0.3, 0.3 * (1.0 - 2e-6), 0.1}));
}

TEST(expert_choice, keys_that_exp_may_order_otherwise_may_be_swapped) {
  const std::vector<double> keys = {0.3, 0.3 * (1.0 + 5e-7), 0.3 * (1.0 - 3e-7), 0.1};
  EXPECT_TRUE(is_same({0, 1}, {1, 0}, keys));
  EXPECT_TRUE(is_same({1, 2}, {1, 0}, keys)); // the last place
  EXPECT_FALSE(is_same({0, 1}, {1, 0}, keys, router_score::softmax_of_chosen));
}

TEST(expert_choice, of_equal_keys_the_lower_index_comes_first) {
  EXPECT_FALSE(is_same({1, 0}, {0, 1}, {0.3, 0.3, 0.1}));
}

TEST(expert_choice, no_expert_is_chosen_twice_and_none_that_is_not_there) {
  const std::vector<double> keys = {0.3, 0.3 * (1.0 + 5e-7), 0.1};
  EXPECT_FALSE(is_same({1, 1}, {1, 0}, keys));
  EXPECT_FALSE(is_same({1, 3}, {1, 0}, keys));
  EXPECT_FALSE(is_same({1}, {1, 0}, keys));
  EXPECT_FALSE(is_same({0}, {2}, {0.3, 0.2, std::nan("")}));
}

TEST(expert_choice, weights_are_those_of_the_chosen) {
  const std::vector<float> logits = {0.0F, 1.0F, 2.0F};
  const auto softmax = expert_scores(logits, router_score::softmax);
  EXPECT_NEAR(softmax[2], 0.66524, 1e-5);
  EXPECT_NEAR(expert_scores(logits, router_score::sigmoid)[1], 0.73106, 1e-5);
  EXPECT_NEAR(weights_of(experts{2, 0}, softmax, false, 1.5)[0], 1.5 * 0.66524, 1e-5);
  EXPECT_NEAR(weights_of(experts{2, 0}, softmax, true, 2.0)[0], 2.0 * 0.88080, 1e-5);
}

} // namespace troupe::gpu_check
