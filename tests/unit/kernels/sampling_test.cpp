#include "kernels/sampling.hpp"
#include "kernels/token_choice.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

sampled_token one(context& ctx, const std::vector<float>& logits, sampling_row row) {
  std::vector<sampled_token> out(1);
  sample(ctx, view_of(logits.data(), 1, logits.size()), {&row, 1}, out);
  return out[0];
}

// How often each token occurs in many draws.
std::vector<int> histogram(context& ctx, const std::vector<float>& logits, sampling_row row, int draws) {
  std::vector<sampling_row> rows(static_cast<std::size_t>(draws), row);
  for (std::size_t i = 0; i < rows.size(); ++i)
    rows[i].key = {42, 0, static_cast<std::uint32_t>(i), 0};
  std::vector<sampled_token> out(rows.size());
  sample(ctx, view_of(logits.data(), 1, logits.size()), rows, out);
  std::vector<int> counts(logits.size());
  for (const sampled_token& token : out)
    ++counts[token.token];
  return counts;
}

std::vector<double> softmax(const std::vector<float>& logits, double temperature = 1.0) {
  std::vector<double> p;
  double sum = 0.0;
  for (const float logit : logits)
    sum += p.emplace_back(std::exp(static_cast<double>(logit) / temperature));
  for (double& value : p)
    value /= sum;
  return p;
}

} // namespace

TEST(philox, gives_the_published_vectors) {
  // Random123's kat_vectors, philox4x32-10.
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (std::array<std::uint32_t, 4>{0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U}));
  EXPECT_EQ(philox4x32({~0U, ~0U, ~0U, ~0U}, {~0U, ~0U}),
            (std::array<std::uint32_t, 4>{0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU}));
  EXPECT_EQ(philox4x32({0x243f6a88U, 0x85a308d3U, 0x13198a2eU, 0x03707344U}, {0xa4093822U, 0x299f31d0U}),
            (std::array<std::uint32_t, 4>{0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U}));
}

TEST(uniform_at, depends_on_every_part_of_the_key) {
  const draw_key key{7, 1, 2, 3};
  const double u = uniform_at(key);
  EXPECT_EQ(u, uniform_at(key));
  EXPECT_GE(u, 0.0);
  EXPECT_LT(u, 1.0);
  EXPECT_NE(u, uniform_at({8, 1, 2, 3}));
  EXPECT_NE(u, uniform_at({7 + (1ULL << 40), 1, 2, 3}));
  EXPECT_NE(u, uniform_at({7, 0, 2, 3}));
  EXPECT_NE(u, uniform_at({7, 1, 3, 3}));
  EXPECT_NE(u, uniform_at({7, 1, 2, 4}));
}

TEST(sample, greedy_takes_the_best_and_the_lowest_id_among_equals) {
  const std::vector<float> logits{0.0F, 2.0F, 1.0F, 2.0F, -1.0F};
  with_every_context([&](context& ctx) {
    std::vector<token_logprob> top(3);
    const sampled_token t =
        one(ctx, logits, {.params = {.temperature = 0.0F}, .num_logprobs = 3, .top = top});
    EXPECT_EQ(t.token, 1U);
    EXPECT_EQ(t.rank, 2U); // two tokens have at least its logit
    EXPECT_EQ(t.num_top, 3U);
    EXPECT_EQ(top[0].token, 1U);
    EXPECT_EQ(top[1].token, 3U);
    EXPECT_EQ(top[2].token, 2U);
    const auto p = softmax(logits);
    EXPECT_NEAR(static_cast<double>(t.logprob), std::log(p[1]), 1e-6);
    EXPECT_NEAR(static_cast<double>(top[2].logprob), std::log(p[2]), 1e-6);
  });
}

TEST(sample, draws_from_the_distribution) {
  const std::vector<float> logits{1.0F, 0.0F, 2.0F, -1.0F, 0.5F};
  reference_context reference;
  constexpr int draws = 20000;
  for (const float temperature : {1.0F, 0.5F, 2.0F}) {
    const auto p = softmax(logits, static_cast<double>(temperature));
    const auto counts = histogram(reference.ctx, logits, {.params = {.temperature = temperature}}, draws);
    for (std::size_t i = 0; i < p.size(); ++i) // five standard deviations
      EXPECT_NEAR(counts[i], draws * p[i], 5.0 * std::sqrt(draws * p[i] * (1.0 - p[i])));
  }
}

TEST(sample, filters_keep_what_they_say) {
  const std::vector<float> logits{1.0F, 0.0F, 2.0F, -1.0F, 1.0F};
  reference_context reference;
  const auto kept = [&](const sampling_params& params) {
    std::vector<std::size_t> tokens;
    const auto counts = histogram(reference.ctx, logits, {.params = params}, 3000);
    for (std::size_t i = 0; i < counts.size(); ++i)
      if (counts[i] != 0)
        tokens.push_back(i);
    return tokens;
  };
  using ids = std::vector<std::size_t>;
  EXPECT_EQ(kept({}), (ids{0, 1, 2, 3, 4}));
  EXPECT_EQ(kept({.top_k = 1}), (ids{2}));
  EXPECT_EQ(kept({.top_k = 2}), (ids{0, 2})); // of the equal 0 and 4 the lower id
  EXPECT_EQ(kept({.top_k = 4}), (ids{0, 1, 2, 4}));
  // p: 2 has 0.505, then 0 with 0.186, then 4 with 0.186, 1 with 0.068, 3 with 0.025.
  EXPECT_EQ(kept({.top_p = 0.5F}), (ids{2}));
  EXPECT_EQ(kept({.top_p = 0.6F}), (ids{0, 2}));
  EXPECT_EQ(kept({.top_p = 0.75F}), (ids{0, 2, 4}));
  EXPECT_EQ(kept({.top_k = 2, .top_p = 0.7F}), (ids{2})); // of two, 2 alone has 0.73
  EXPECT_EQ(kept({.min_p = 0.3F}), (ids{0, 2, 4}));       // e⁻¹ = 0.37 of the best
  EXPECT_EQ(kept({.min_p = 0.9F}), (ids{2}));
}

TEST(sample, a_filter_that_drops_nothing_changes_nothing) {
  const auto logits = random_floats(1000, 1, 2.0F);
  reference_context reference;
  for (std::uint32_t position = 0; position < 200; ++position) {
    const draw_key key{5, 0, position, 0};
    const auto plain = one(reference.ctx, logits, {.params = {}, .key = key}).token;
    EXPECT_EQ(one(reference.ctx, logits, {.params = {.top_k = 1000}, .key = key}).token, plain);
    EXPECT_EQ(one(reference.ctx, logits, {.params = {.min_p = 1e-30F}, .key = key}).token, plain);
  }
}

TEST(sample, top_p_agrees_with_a_full_sort) {
  const auto logits = random_floats(5000, 2, 1.0F);
  const auto p = softmax(logits);
  std::vector<std::uint32_t> order(logits.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(), [&](auto a, auto b) { return logits[a] > logits[b]; });
  reference_context reference;
  for (const float top_p : {0.1F, 0.5F, 0.9F, 0.99F}) {
    double sum = 0.0;
    std::size_t count = 0;
    while (sum < static_cast<double>(top_p))
      sum += p[order[count++]];
    std::vector<bool> allowed(logits.size());
    for (std::size_t i = 0; i <= count; ++i) // one more: sums may round either way at the edge
      allowed[order[i]] = true;
    for (std::uint32_t position = 0; position < 300; ++position)
      EXPECT_TRUE(allowed[one(reference.ctx, logits, {.params = {.top_p = top_p}, .key = {9, 0, position, 0}})
                              .token]);
  }
}

namespace {

// The documented choice with a plain stable sort.
std::uint32_t documented_choice(const token_shares& row, const token_filters& filters, double uniform) {
  std::vector<std::uint32_t> kept;
  for (std::uint32_t token = 0; token < row.vocab; ++token)
    if (row.shares[token] > 0.0F && row.shares[token] >= filters.min_p)
      kept.push_back(token);
  const auto total = [&] {
    std::vector<std::uint32_t> by_id = kept;
    std::sort(by_id.begin(), by_id.end());
    double sum = 0.0;
    for (const std::uint32_t token : by_id)
      sum += static_cast<double>(row.shares[token]);
    return sum;
  };
  std::stable_sort(kept.begin(), kept.end(), [&](auto a, auto b) { return row.logits[a] > row.logits[b]; });
  if (filters.top_k != 0 && filters.top_k < kept.size())
    kept.resize(filters.top_k);
  if (filters.top_p < 1.0F) {
    const double wanted = static_cast<double>(filters.top_p) * total();
    double sum = 0.0;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      sum += static_cast<double>(row.shares[kept[i]]);
      if (sum >= wanted) {
        kept.resize(i + 1);
        break;
      }
    }
  }
  const double target = uniform * total();
  std::sort(kept.begin(), kept.end());
  double sum = 0.0;
  for (const std::uint32_t token : kept) {
    sum += static_cast<double>(row.shares[token]);
    if (sum > target)
      return token;
  }
  return kept.empty() ? 0 : kept.back();
}

} // namespace

TEST(choose_token, is_the_documented_choice_whatever_the_filters_and_the_distribution) {
  std::size_t distinct = 0;
  for (const std::size_t vocab : {std::size_t{1}, std::size_t{5}, std::size_t{16}, std::size_t{37},
                                  std::size_t{300}, std::size_t{2500}})
    // From flat to nearly certain; rounded logits occur often.
    for (const float spread : {0.0F, 0.1F, 1.0F, 5.0F, 40.0F})
      for (const unsigned seed : {0U, 1U, 4U}) {
        auto logits = random_floats(vocab, 700 + seed, spread);
        for (std::size_t i = 0; i < vocab; ++i) {
          if (seed % 2 == 1)
            logits[i] = std::round(logits[i] * 4.0F) / 4.0F; // both zeros among them
          if (seed == 4 && i % 3 == 1)
            logits[i] = -std::numeric_limits<float>::infinity();
        }
        for (const float temperature : {0.3F, 1.0F, 1.7F}) {
          const float best = *std::max_element(logits.begin(), logits.end());
          std::vector<float> shares(vocab);
          for (std::size_t i = 0; i < vocab; ++i) {
            shares[i] = std::exp((logits[i] - best) / temperature);
            if (shares[i] < std::numeric_limits<float>::min())
              shares[i] = 0.0F;
          }
          const token_shares row{logits.data(), shares.data(), vocab, best, temperature};
          std::vector<std::uint64_t> scratch(2 * vocab);
          for (const std::uint32_t top_k : {0U, 1U, 7U, 256U, 257U, 2000U})
            for (const float top_p : {0.01F, 0.5F, 0.9F, 0.999F, 0.9999999F, 1.0F})
              for (const float min_p : {0.0F, 0.05F, 1.0F})
                for (const double uniform : {0.0, 0.37, 0.9, 1.0 - 0x1p-53}) {
                  const token_filters filters{top_k, top_p, min_p};
                  const std::uint32_t expected = documented_choice(row, filters, uniform);
                  ASSERT_EQ(choose_token(row, filters, uniform, scratch), expected)
                      << "vocab " << vocab << ", spread " << spread << ", seed " << seed << ", temperature "
                      << temperature << ", top_k " << top_k << ", top_p " << top_p << ", min_p " << min_p
                      << ", uniform " << uniform;
                  distinct += expected != 0 ? 1U : 0U;
                }
        }
      }
  EXPECT_GT(distinct, 10000U);
}

TEST(sample, applies_penalties_bias_and_bans) {
  reference_context reference;
  const sampling_params greedy{.temperature = 0.0F};
  const std::vector<float> logits{3.0F, 2.5F, -1.0F, 2.0F};
  const std::vector<token_count> counts{{0, 2}, {2, 0}};
  const auto choose = [&](const sampling_params& params) {
    return one(reference.ctx, logits, {.params = params, .counts = counts}).token;
  };
  EXPECT_EQ(choose(greedy), 0U);
  EXPECT_EQ(choose({.temperature = 0.0F, .repetition_penalty = 1.5F}), 1U); // 3 / 1.5 = 2
  EXPECT_EQ(choose({.temperature = 0.0F, .presence_penalty = 0.4F}), 0U);   // 2.6
  EXPECT_EQ(choose({.temperature = 0.0F, .presence_penalty = 0.6F}), 1U);   // 2.4
  EXPECT_EQ(choose({.temperature = 0.0F, .frequency_penalty = 0.3F}), 1U);  // 3 − 2 · 0.3
  const std::vector<token_bias> bias{{2, 100.0F}, {77, 1.0F}}; // an id beyond the vocabulary is ignored
  EXPECT_EQ(one(reference.ctx, logits, {.params = greedy, .logit_bias = bias}).token, 2U);
  const std::vector<std::uint32_t> banned{0, 1};
  const sampled_token t = one(reference.ctx, logits, {.params = greedy, .forbidden = banned});
  EXPECT_EQ(t.token, 3U);
  EXPECT_NEAR(static_cast<double>(t.logprob), std::log(softmax(logits)[3]), 1e-6); // of the raw model
  EXPECT_EQ(t.rank, 3U);
}

TEST(sample, keeps_what_is_allowed) {
  reference_context reference;
  const std::vector<float> logits{3.0F, 2.5F, -1.0F, 2.0F};
  const std::vector<std::uint32_t> allowed{3, 2, 77}; // an id beyond the vocabulary is ignored
  const sampled_token t = one(reference.ctx, logits, {.params = {.temperature = 0.0F}, .allowed = allowed});
  EXPECT_EQ(t.token, 3U);
  EXPECT_NEAR(static_cast<double>(t.logprob), std::log(softmax(logits)[3]), 1e-6); // of the raw model
  const std::vector<int> counts = histogram(reference.ctx, logits, {.allowed = allowed}, 4000);
  EXPECT_EQ(counts[0] + counts[1], 0);
  EXPECT_NEAR(counts[3] / 4000.0, std::exp(2.0) / (std::exp(2.0) + std::exp(-1.0)), 0.02);
  const std::vector<std::uint32_t> banned{3};
  EXPECT_EQ(one(reference.ctx, logits, {.forbidden = banned, .allowed = allowed}).token, 2U);
  EXPECT_EQ(one(reference.ctx, logits, {.forbidden = banned, .allowed = banned}).token, 3U);
}

TEST(sample, repetition_penalty_multiplies_negative_logits) {
  reference_context reference;
  const std::vector<float> logits{-1.0F, -1.5F};
  const std::vector<token_count> counts{{0, 0}}; // in the prompt only
  EXPECT_EQ(one(reference.ctx, logits,
                {.params = {.temperature = 0.0F, .repetition_penalty = 2.0F}, .counts = counts})
                .token,
            1U);
}

TEST(sample, is_the_same_everywhere_and_alone) {
  constexpr std::size_t vocab = 4099;
  constexpr std::size_t count = 24;
  const auto logits = random_floats(count * vocab, 3, 3.0F);
  std::vector<std::vector<token_logprob>> room(count, std::vector<token_logprob>(5));
  const std::vector<token_count> counts{{1, 1}, {2, 5}};
  std::vector<sampling_row> rows;
  for (std::uint32_t i = 0; i < count; ++i)
    rows.push_back({.logits_row = i,
                    .params = {.temperature = 0.3F * static_cast<float>(i % 5),
                               .top_k = i % 3 == 0 ? 50U : 0U,
                               .top_p = i % 4 == 0 ? 0.9F : 1.0F,
                               .min_p = i % 5 == 0 ? 0.01F : 0.0F,
                               .frequency_penalty = 0.1F},
                    .key = {99, i, i, 0},
                    .counts = counts,
                    .num_logprobs = 5,
                    .top = room[i]});
  reference_context reference;
  std::vector<sampled_token> expected(count);
  sample(reference.ctx, view_of(logits.data(), count, vocab), rows, expected);
  const auto expected_room = room;
  with_every_context([&](context& ctx) {
    std::vector<sampled_token> got(count);
    sample(ctx, view_of(logits.data(), count, vocab), rows, got);
    for (std::size_t i = 0; i < count; ++i) {
      EXPECT_EQ(got[i].token, expected[i].token);
      EXPECT_EQ(got[i].logprob, expected[i].logprob);
      EXPECT_EQ(got[i].rank, expected[i].rank);
      for (std::size_t j = 0; j < 5; ++j) {
        EXPECT_EQ(room[i][j].token, expected_room[i][j].token);
        EXPECT_EQ(room[i][j].logprob, expected_room[i][j].logprob);
      }
      std::vector<sampled_token> alone(1);
      sample(ctx, view_of(logits.data(), count, vocab), {&rows[i], 1}, alone);
      EXPECT_EQ(alone[0].token, expected[i].token);
    }
  });
}

TEST(sample, shows_a_sick_row) {
  reference_context reference;
  const float inf = std::numeric_limits<float>::infinity();
  for (const float value : {std::nanf(""), -inf, inf}) {
    const sampled_token t = one(reference.ctx, std::vector<float>(20, value), {});
    EXPECT_EQ(t.token, 0U);
    EXPECT_TRUE(std::isnan(t.logprob));
  }
  std::vector<float> half(20, 0.0F);
  half[3] = std::nanf("");
  EXPECT_TRUE(std::isnan(one(reference.ctx, half, {}).logprob));
}

TEST(token_logprobs, reports_given_tokens) {
  const std::vector<float> logits{0.5F, 1.5F, -0.5F, 1.0F};
  reference_context reference;
  std::vector<token_logprob> top(9);
  const std::vector<logprob_row> rows{{0, 2, 0, {}}, {0, 3, 9, top}};
  std::vector<sampled_token> out(2);
  token_logprobs(reference.ctx, view_of(logits.data(), 1, 4), rows, out);
  const auto p = softmax(logits);
  EXPECT_NEAR(static_cast<double>(out[0].logprob), std::log(p[2]), 1e-6);
  EXPECT_EQ(out[0].rank, 4U);
  EXPECT_EQ(out[0].num_top, 0U);
  EXPECT_EQ(out[1].rank, 2U);
  EXPECT_EQ(out[1].num_top, 4U); // no more than the vocabulary
  EXPECT_EQ(top[0].token, 1U);
  EXPECT_EQ(top[3].token, 2U);
}

} // namespace troupe::kernels
