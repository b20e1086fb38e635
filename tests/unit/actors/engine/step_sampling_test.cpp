// The effect of a sequence's parameters on its logits.
#include "actors/engine/step_sampling.hpp"

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe {
namespace {

class step_sampling_test : public testing::Test {
 protected:
  /// Samples greedily after `prompt` and `emitted`, as a worker that computes them again, or continues.
  /// @param guesses  rows behind the known tokens; the last token is drawn behind them
  std::int32_t next(std::vector<std::int32_t> prompt, const std::vector<std::int32_t>& emitted,
                    const std::vector<std::int32_t>& guesses = {}) {
    auto tokens = std::make_shared<sequence_tokens>();
    tokens->id = {{1}, 0};
    tokens->sampling = sampling;
    tokens->sampling.temperature = 0;
    tokens->num_prompt = static_cast<std::uint32_t>(prompt.size());
    tokens->tokens = std::move(prompt);
    tokens->tokens.insert(tokens->tokens.end(), emitted.begin(), emitted.end());
    attention_step step;
    auto position = static_cast<std::uint32_t>(tokens->tokens.size() - 1);
    step.rows.push_back({static_cast<std::uint32_t>(tokens->tokens.back()), position, 0, 0});
    for (const auto guess : guesses)
      step.rows.push_back({static_cast<std::uint32_t>(guess), ++position, 0, 0});
    step.wanted.push_back({static_cast<std::uint32_t>(step.rows.size() - 1), position + 1,
                           token_purpose::sample, tokens->sampling.allowed_token_ids});
    step.sequences.push_back({tokens, nullptr});
    std::vector<step_token> drawn;
    const std::vector<float> logits{1, 2, 3, 4, 5, 6}; // the last one is best
    const auto sample = [&](const model::token_requests& wanted) {
      EXPECT_EQ(wanted.rows.size(), 1U);
      EXPECT_EQ(wanted.known.size(), 0U);
      kernels::sample(reference.ctx, kernels::view_of(logits.data(), 1, logits.size()), wanted.drawn,
                      wanted.drawn_tokens);
    };
    answer_wanted(sample, step, step.wanted, drawn);
    EXPECT_EQ(drawn.size(), 1U);
    EXPECT_EQ(drawn[0].position, position + 1);
    return drawn[0].token.token;
  }

  kernels::reference_context reference;
  sampling_params sampling;
};

TEST_F(step_sampling_test, only_allowed_tokens_are_chosen) {
  EXPECT_EQ(next({0}, {}), 5);
  sampling.allowed_token_ids = {1, 3};
  EXPECT_EQ(next({0}, {}), 3);
  sampling.logit_bias = {{5, 100.0F}, {1, 50.0F}};
  EXPECT_EQ(next({0}, {}), 1) << "a bias does not bring back what is not allowed";
}

TEST_F(step_sampling_test, the_last_token_of_a_bad_word_is_masked_when_the_answer_ends_with_the_others) {
  sampling.bad_words = {{2, 4, 5}};
  EXPECT_EQ(next({0}, {2, 4}), 4);
  EXPECT_EQ(next({0}, {1, 2, 4}), 4);
  EXPECT_EQ(next({0}, {2, 4, 4}), 5);
  EXPECT_EQ(next({0}, {4}), 5);
  EXPECT_EQ(next({0, 2, 4}, {}), 5) << "the prompt is not looked at, as in vLLM";
  EXPECT_EQ(next({2}, {4}), 5);
}

TEST_F(step_sampling_test, a_bad_word_of_one_token_is_never_chosen) {
  sampling.bad_words = {{5}, {4}};
  EXPECT_EQ(next({0}, {}), 3);
  EXPECT_EQ(next({0}, {1, 2}), 3);
}

TEST_F(step_sampling_test, where_all_that_is_allowed_is_forbidden_what_is_allowed_counts) {
  sampling.allowed_token_ids = {1, 2};
  sampling.stop_token_ids = {1, 2};
  sampling.min_tokens = 3;
  EXPECT_EQ(next({0}, {}), 2);
  sampling.stop_token_ids = {2};
  EXPECT_EQ(next({0}, {}), 1);
}

TEST_F(step_sampling_test, a_stop_token_is_masked_until_there_are_as_many_tokens_as_asked_for) {
  sampling.stop_token_ids = {5};
  sampling.min_tokens = 2;
  EXPECT_EQ(next({0}, {}), 4);
  EXPECT_EQ(next({0, 1, 2}, {3}), 4) << "the prompt does not count";
  EXPECT_EQ(next({0}, {3, 3}), 5);
}

TEST_F(step_sampling_test, presence_is_punished_in_the_answer_and_not_in_the_prompt) {
  sampling.presence_penalty = 1.5F;
  EXPECT_EQ(next({5}, {1}), 5);
  EXPECT_EQ(next({0}, {5}), 4);
}

TEST_F(step_sampling_test, guesses_in_the_rows_before_count_as_emitted) {
  sampling.bad_words = {{2, 4, 5}};
  EXPECT_EQ(next({0}, {2}, {4}), 4);
  EXPECT_EQ(next({0}, {}, {2, 4}), 4);
  EXPECT_EQ(next({0}, {2, 4}, {1}), 5);
  sampling = {};
  sampling.presence_penalty = 1.5F;
  EXPECT_EQ(next({0}, {}, {5}), 4);
  sampling = {};
  sampling.stop_token_ids = {5};
  sampling.min_tokens = 2;
  EXPECT_EQ(next({0}, {}, {3}), 4);
  EXPECT_EQ(next({0}, {3}, {3}), 5);
}

} // namespace
} // namespace troupe
