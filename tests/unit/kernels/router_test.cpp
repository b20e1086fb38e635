#include "kernels/router.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

struct routed {
  std::vector<std::uint32_t> experts;
  std::vector<float> weights;
};

routed run(context& ctx, const std::vector<float>& logits, std::size_t experts, std::size_t top_k,
           router_score score, bool renormalise, const float* bias = nullptr) {
  const std::size_t rows = logits.size() / experts;
  routed r{std::vector<std::uint32_t>(rows * top_k, 999), std::vector<float>(rows * top_k, poison)};
  route(ctx, {.logits = view_of(logits.data(), rows, experts),
              .top_k = top_k,
              .score = score,
              .renormalise = renormalise,
              .scale = 1.0F,
              .choice_bias = bias,
              .experts = r.experts,
              .weights = r.weights});
  return r;
}

} // namespace

TEST(route, takes_the_best_of_a_softmax) {
  constexpr std::size_t experts = 37;
  constexpr std::size_t rows = 50;
  const auto logits = random_floats(rows * experts, 1, 2.0F);
  reference_context reference;
  for (const std::size_t top_k : {1UL, 2UL, 8UL, experts}) {
    const routed expected = run(reference.ctx, logits, experts, top_k, router_score::softmax, false);
    for (std::size_t r = 0; r < rows; ++r) {
      const float* row = logits.data() + r * experts;
      std::vector<std::uint32_t> order(experts);
      std::iota(order.begin(), order.end(), 0U);
      std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return row[a] > row[b]; });
      double sum = 0.0;
      for (std::size_t e = 0; e < experts; ++e)
        sum += std::exp(static_cast<double>(row[e]));
      for (std::size_t i = 0; i < top_k; ++i) {
        EXPECT_EQ(expected.experts[r * top_k + i], order[i]);
        EXPECT_NEAR(static_cast<double>(expected.weights[r * top_k + i]),
                    std::exp(static_cast<double>(row[order[i]])) / sum, 1e-6);
      }
    }
    with_every_context([&](context& ctx) {
      const routed got = run(ctx, logits, experts, top_k, router_score::softmax, false);
      EXPECT_EQ(got.experts, expected.experts);
      EXPECT_TRUE(same_bits(got.weights, expected.weights)) << name_of(ctx.instruction_set());
    });
  }
}

TEST(route, prefers_the_lower_index_among_equals) {
  const std::vector<float> logits{1.0F, 3.0F, 3.0F, 1.0F, 3.0F, 0.0F};
  reference_context reference;
  for (const auto score : {router_score::softmax, router_score::sigmoid, router_score::softmax_of_chosen})
    EXPECT_EQ(run(reference.ctx, logits, 6, 4, score, true).experts,
              (std::vector<std::uint32_t>{1, 2, 4, 0}));
}

TEST(route, renormalises_and_scales) {
  const auto logits = random_floats(4 * 16, 2);
  reference_context reference;
  const routed plain = run(reference.ctx, logits, 16, 3, router_score::sigmoid, false);
  const routed normal = run(reference.ctx, logits, 16, 3, router_score::sigmoid, true);
  for (std::size_t r = 0; r < 4; ++r) {
    const float sum = (plain.weights[r * 3] + plain.weights[r * 3 + 1]) + plain.weights[r * 3 + 2];
    for (std::size_t i = 0; i < 3; ++i)
      EXPECT_EQ(normal.weights[r * 3 + i], plain.weights[r * 3 + i] / sum);
  }
}

TEST(route, biases_the_choice_but_not_the_weights) {
  const std::vector<float> logits{2.0F, 1.0F, 0.0F, -1.0F};
  const std::vector<float> bias{0.0F, 0.0F, 0.0F, 1.0F};
  reference_context reference;
  const routed r = run(reference.ctx, logits, 4, 2, router_score::sigmoid, false, bias.data());
  EXPECT_EQ(r.experts, (std::vector<std::uint32_t>{3, 0}));
  EXPECT_NEAR(r.weights[0], 1.0 / (1.0 + std::exp(1.0)), 1e-6);
}

TEST(route, softmax_of_the_chosen_sums_to_one) {
  const std::vector<float> logits{2.0F, 1.0F, 0.0F, -1.0F};
  reference_context reference;
  const routed r = run(reference.ctx, logits, 4, 2, router_score::softmax_of_chosen, false);
  EXPECT_NEAR(r.weights[0], 1.0 / (1.0 + std::exp(-1.0)), 1e-6);
  EXPECT_NEAR(r.weights[0] + r.weights[1], 1.0F, 1e-6F);
}

// Eight experts in four groups; the best expert, 0, is in a poor group if that is ranked by two.
TEST(route, chooses_among_the_best_groups) {
  const std::vector<float> logits{3.0F, -9.0F, 1.0F, 2.0F, 1.5F, 1.6F, -1.0F, 2.5F};
  with_every_context([&](context& ctx) {
    std::vector<std::uint32_t> experts(3);
    std::vector<float> weights(3);
    router_args args{.logits = view_of(logits.data(), 1, 8),
                     .top_k = 3,
                     .score = router_score::sigmoid,
                     .groups = {.count = 4, .kept = 2, .rank = group_rank::largest},
                     .experts = experts,
                     .weights = weights};
    route(ctx, args);
    EXPECT_EQ(experts, (std::vector<std::uint32_t>{0, 7, 6}));
    args.groups.rank = group_rank::sum_of_two;
    route(ctx, args);
    EXPECT_EQ(experts, (std::vector<std::uint32_t>{3, 5, 4}));
    // The bias counts for groups, too, but not for weights.
    const std::vector<float> bias{0.0F, 0.9F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F, 0.0F};
    args.choice_bias = bias.data();
    route(ctx, args);
    EXPECT_EQ(experts, (std::vector<std::uint32_t>{0, 1, 5}));
    EXPECT_NEAR(weights[1], 1.0 / (1.0 + std::exp(9.0)), 1e-9);
  });
}

TEST(route, of_equal_groups_keeps_the_lower) {
  const std::vector<float> logits{0.0F, 1.0F, 1.0F, 0.0F, 1.0F, 0.0F};
  reference_context reference;
  for (const auto rank : {group_rank::largest, group_rank::sum_of_two}) {
    std::vector<std::uint32_t> experts(3);
    std::vector<float> weights(3);
    route(reference.ctx, {.logits = view_of(logits.data(), 1, 6),
                          .top_k = 3,
                          .groups = {.count = 3, .kept = 2, .rank = rank},
                          .experts = experts,
                          .weights = weights});
    EXPECT_EQ(experts, (std::vector<std::uint32_t>{1, 2, 0}));
  }
}

TEST(route, guards_the_sum_it_divides_by) {
  const std::vector<float> logits{-47.0F, -48.0F, -49.0F};
  reference_context reference;
  std::vector<std::uint32_t> experts(2);
  std::vector<float> weights(2);
  router_args args{.logits = view_of(logits.data(), 1, 3),
                   .top_k = 2,
                   .score = router_score::sigmoid,
                   .renormalise = true,
                   .experts = experts,
                   .weights = weights};
  const routed plain = run(reference.ctx, logits, 3, 2, router_score::sigmoid, false);
  const float sum = plain.weights[0] + plain.weights[1];
  args.sum_offset = 1e-20F;
  route(reference.ctx, args);
  EXPECT_EQ(weights[0], plain.weights[0] / (sum + 1e-20F));
  args.sum_offset = 0.0F;
  args.least_sum = 1e-12F;
  route(reference.ctx, args);
  EXPECT_EQ(weights[0], plain.weights[0] / 1e-12F);
}

// transformers' sparsemixer in double.
TEST(route, mixes_sparsely) {
  constexpr std::size_t experts = 16;
  constexpr std::size_t rows = 200;
  constexpr float jitter = 0.2F;
  const auto logits = random_floats(rows * experts, 3, 2.0F);
  with_every_context([&](context& ctx) {
    std::vector<std::uint32_t> chosen(rows * 2);
    std::vector<float> weights(rows * 2);
    route(ctx, {.logits = view_of(logits.data(), rows, experts),
                .top_k = 2,
                .score = router_score::sparsemixer,
                .jitter = jitter,
                .experts = chosen,
                .weights = weights});
    for (std::size_t r = 0; r < rows; ++r) {
      std::vector<double> left(logits.begin() + static_cast<long>(r * experts),
                               logits.begin() + static_cast<long>((r + 1) * experts));
      for (std::size_t i = 0; i < 2; ++i) {
        const auto best = std::max_element(left.begin(), left.end());
        double sum = 0.0;
        for (const double logit : left)
          if ((*best - logit) / std::max(std::abs(logit), *best) <= 2.0 * static_cast<double>(jitter))
            sum += std::exp(logit - *best);
        EXPECT_EQ(chosen[r * 2 + i], best - left.begin());
        EXPECT_NEAR(static_cast<double>(weights[r * 2 + i]), 1.0 / sum, 1e-6);
        *best = -std::numeric_limits<double>::infinity();
      }
    }
  });
}

TEST(route, sparsemixer_keeps_equals_of_zero) {
  const std::vector<float> logits{-1.0F, 0.0F, 0.0F, -2.0F}; // 0 / 0 is near
  reference_context reference;
  const routed r = run(reference.ctx, logits, 4, 2, router_score::sparsemixer, false);
  EXPECT_EQ(r.experts, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_EQ(r.weights, (std::vector<float>{0.5F, 1.0F}));
}

TEST(route, gives_valid_experts_even_for_sick_logits) {
  const std::vector<float> logits(8, std::nanf(""));
  with_every_context([&](context& ctx) {
    const routed r = run(ctx, logits, 8, 2, router_score::softmax, true);
    EXPECT_EQ(r.experts, (std::vector<std::uint32_t>{0, 1}));
  });
}

TEST(build_expert_table, sorts_stably_by_expert) {
  const std::vector<std::uint32_t> experts{3, 1, 0, 3, 1, 3};
  std::vector<std::uint32_t> offsets(6, 77);
  std::vector<std::uint32_t> entries(6, 77);
  build_expert_table({experts, 5, offsets, entries});
  EXPECT_EQ(offsets, (std::vector<std::uint32_t>{0, 1, 3, 3, 6, 6}));
  EXPECT_EQ(entries, (std::vector<std::uint32_t>{2, 1, 4, 0, 3, 5}));
}

TEST(build_expert_table, takes_no_rows) {
  std::vector<std::uint32_t> offsets(4, 77);
  build_expert_table({{}, 3, offsets, {}});
  EXPECT_EQ(offsets, (std::vector<std::uint32_t>(4, 0)));
}

} // namespace troupe::kernels
