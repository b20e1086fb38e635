// A choice from a part of a row equals the choice from the whole row.
#include "kernels/known_logits.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/logit_changes.hpp"
#include "kernels/token_choice.hpp"
#include "tests/reference/sampling_requests.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

// Computes what another device would report of a row.
struct told {
  std::vector<token_logit> top;
  std::vector<std::uint32_t> changed_ids;
  std::vector<float> changed;
  std::vector<double> sums;
  known_logits known;

  told(const context& ctx, const std::vector<float>& logits, const sampling_row& row, std::size_t num_top) {
    const auto vocab = logits.size();
    known.vocab = vocab;
    known.best = ctx.table().max_row(logits.data(), vocab);
    known.exp_sum = ctx.table().exp_sum(logits.data(), known.best, 1.0F, vocab, nullptr);
    for (std::uint32_t token = 0; token < vocab; ++token)
      top.push_back({token, logits[token]});
    std::sort(top.begin(), top.end(), is_better);
    auto count = std::min(num_top, vocab);
    while (count < vocab && top[count].logit == top[count - 1].logit)
      ++count;
    top.resize(count);
    known.top = top;
    if (changes_logits(row))
      changed_ids = changed_tokens(row, vocab);
    for (const auto token : changed_ids)
      changed.push_back(logits[token]);
    known.changed = changed;
    if (draws_from_all(row, vocab))
      sum_shares(ctx, logits, row);
  }

  // Each block from its end on, so in another order than on the CPU.
  void sum_shares(const context& ctx, const std::vector<float>& logits, const sampling_row& row) {
    std::vector<float> shares(logits.size());
    ctx.table().exp_sum(logits.data(), known.best, 1.0F / row.params.temperature, shares.size(),
                        shares.data());
    sums.resize(share_blocks(shares.size()));
    for (auto token = shares.size(); token-- > 0;)
      if (shares[token] >= least_share(row.params.min_p))
        sums[token / share_block] += static_cast<double>(shares[token]);
    const double target = uniform_at(row.key) * std::accumulate(sums.begin(), sums.end(), 0.0);
    double so_far = sums[0];
    while (so_far <= target && known.drawn_block + 1 < sums.size())
      so_far += sums[++known.drawn_block];
    known.share_sums = sums;
    const auto first = known.drawn_block * share_block;
    known.drawn = std::span(logits).subspan(first, std::min(share_block, logits.size() - first));
  }
};

std::uint32_t rank_of(const std::vector<float>& logits, float logit) {
  return static_cast<std::uint32_t>(
      std::count_if(logits.begin(), logits.end(), [&](float other) { return other >= logit; }));
}

void expect_same(const sampled_token& got, const sampled_token& want, std::span<const token_logprob> got_top,
                 std::span<const token_logprob> want_top) {
  EXPECT_EQ(got.token, want.token);
  EXPECT_TRUE(same_bits(std::span(&got.logprob, 1), std::span(&want.logprob, 1)));
  EXPECT_EQ(got.rank, want.rank);
  ASSERT_EQ(got.num_top, want.num_top);
  for (std::uint32_t i = 0; i < want.num_top; ++i) {
    EXPECT_EQ(got_top[i].token, want_top[i].token) << i;
    EXPECT_TRUE(same_bits(std::span(&got_top[i].logprob, 1), std::span(&want_top[i].logprob, 1))) << i;
  }
}

class known_logits_test : public testing::Test {
 protected:
  std::vector<float> row_of(std::size_t vocab, unsigned seed) {
    auto logits = random_floats(vocab, seed, 3.0F);
    for (std::size_t i = 5; i < vocab; i += 7) // equals
      logits[i] = logits[i - 4];
    return logits;
  }

  thread_pool pool_{{.threads = 1}};
  context ctx_{pool_};
  known_scratch scratch_;
};

} // namespace

TEST_F(known_logits_test, gives_what_the_whole_row_gives_or_nothing) {
  std::size_t asked = 0;
  std::size_t decided = 0;
  for (const auto& [vocab, num_top] : {std::pair{1U, 4U}, std::pair{9U, 4U}, std::pair{300U, 300U},
                                       std::pair{3000U, 64U}, std::pair{20000U, 300U}}) {
    const test::sampling_requests requests(300, 1, vocab, vocab);
    for (unsigned i = 0; i < requests.rows().size(); ++i) {
      SCOPED_TRACE(testing::Message() << "vocabulary " << vocab << ", request " << i);
      const auto logits = row_of(vocab, i);
      const std::span asked_for = std::span(requests.rows()).subspan(i, 1);
      const test::rows_with_own_tops<sampling_row> whole(asked_for);
      const test::rows_with_own_tops<sampling_row> in_part(asked_for);
      std::vector<sampled_token> want(1);
      sample(ctx_, view_of(logits.data(), 1, vocab), whole.rows(), want);
      const auto& row = in_part.rows().front();
      const told part(ctx_, logits, row, num_top);
      auto got = sample_known(ctx_, part.known, row, part.changed_ids, scratch_);
      ++asked;
      if (!got)
        continue;
      ++decided;
      if (!got->has_rank)
        got->token.rank = rank_of(logits, got->logit);
      expect_same(got->token, want[0], row.top, whole.rows().front().top);
    }
  }
  EXPECT_GT(decided * 10, asked * 8) << "of " << asked;
}

TEST_F(known_logits_test, draws_as_the_model_says_are_decided) {
  const std::size_t vocab = 20000;
  const auto logits = row_of(vocab, 1);
  for (unsigned i = 0; i < 200; ++i) {
    const sampling_row row{
        .params = {.temperature = i % 2 == 0 ? 1.0F : 0.7F, .min_p = i % 3 == 0 ? 0.001F : 0.0F},
        .key = {i, 0, 7, 0}};
    std::vector<sampled_token> want(1);
    sample(ctx_, view_of(logits.data(), 1, vocab), {&row, 1}, want);
    const told part(ctx_, logits, row, 16);
    const auto got = sample_known(ctx_, part.known, row, {}, scratch_);
    ASSERT_TRUE(got) << i;
    EXPECT_EQ(got->token.token, want[0].token) << i;
  }
}

TEST_F(known_logits_test, a_draw_at_an_edge_is_not_decided) {
  const std::size_t vocab = 2500;
  const auto logits = row_of(vocab, 3);
  sampling_row row;
  while (uniform_at(row.key) < 0.2 || uniform_at(row.key) > 0.3)
    ++row.key.seed;
  told part(ctx_, logits, row, 16);
  ASSERT_TRUE(sample_known(ctx_, part.known, row, {}, scratch_));
  // The last block gets such a share that the draw is exactly at the end of a token.
  std::vector<float> shares(vocab);
  ctx_.table().exp_sum(logits.data(), part.known.best, 1.0F, vocab, shares.data());
  double edge = 0.0;
  for (std::size_t token = 0; token < 700; ++token)
    edge += static_cast<double>(shares[token]);
  part.sums.back() = edge / uniform_at(row.key) - part.sums[0] - part.sums[1];
  part.known.drawn_block = 0;
  part.known.drawn = std::span(logits).first(share_block);
  EXPECT_FALSE(sample_known(ctx_, part.known, row, {}, scratch_));
  part.sums.back() *= 1.0 + 1e-9;
  EXPECT_TRUE(sample_known(ctx_, part.known, row, {}, scratch_));
}

TEST_F(known_logits_test, what_is_not_known_is_not_guessed) {
  const std::size_t vocab = 3000;
  const auto logits = row_of(vocab, 4);
  std::vector<token_logprob> top(30);
  // More is wanted than is known.
  sampling_row row{.params = {.temperature = 1.0F, .top_k = 40}};
  EXPECT_FALSE(sample_known(ctx_, told(ctx_, logits, row, 20).known, row, {}, scratch_));
  row = {.params = {.temperature = 0.0F}, .num_logprobs = 30, .top = top};
  EXPECT_FALSE(sample_known(ctx_, told(ctx_, logits, row, 20).known, row, {}, scratch_));
  // All that is known is forbidden.
  const told best(ctx_, logits, {}, 3);
  std::vector<std::uint32_t> forbidden;
  for (const auto& entry : best.top)
    forbidden.push_back(entry.token);
  row = {.params = {.temperature = 0.0F}, .forbidden = forbidden};
  const told part(ctx_, logits, row, 3);
  EXPECT_FALSE(sample_known(ctx_, part.known, row, part.changed_ids, scratch_));
  EXPECT_TRUE(sample_known(ctx_, told(ctx_, logits, row, 30).known, row, part.changed_ids, scratch_));
  // None is.
  auto nothing = part.known;
  nothing.top = {};
  EXPECT_FALSE(sample_known(ctx_, nothing, {}, {}, scratch_));
}

TEST_F(known_logits_test, a_sick_row_gives_token_0_without_a_logprob) {
  const auto logits = row_of(100, 5);
  told part(ctx_, logits, {}, 4);
  part.known.exp_sum = std::numeric_limits<double>::quiet_NaN();
  const auto got = sample_known(ctx_, part.known, {}, {}, scratch_);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->token.token, 0U);
  EXPECT_NE(got->token.logprob, got->token.logprob);
}

TEST_F(known_logits_test, logprobs_of_given_tokens_are_those_of_the_whole_row) {
  const std::size_t vocab = 3000;
  const auto logits = row_of(vocab, 6);
  for (std::uint32_t token = 0; token < vocab; token += 100) {
    std::vector<token_logprob> top(5);
    std::vector<token_logprob> want_top(5);
    const logprob_row row{.token = token, .num_logprobs = 5, .top = top};
    const logprob_row want_row{.token = token, .num_logprobs = 5, .top = want_top};
    std::vector<sampled_token> want(1);
    token_logprobs(ctx_, view_of(logits.data(), 1, vocab), {&want_row, 1}, want);
    auto got = known_logprob(told(ctx_, logits, {}, 300).known, row, logits[token]);
    ASSERT_TRUE(got);
    if (!got->has_rank)
      got->token.rank = rank_of(logits, got->logit);
    expect_same(got->token, want[0], top, want_top);
  }
}

} // namespace troupe::kernels
