// Bounds on the size of answers.
#include "services/gateway/openai/answer_size.hpp"

#include <gtest/gtest.h>

namespace troupe::openai {
namespace {

generation_plan plan_of(std::int32_t max_tokens, std::uint32_t num_choices = 1) {
  generation_plan plan;
  plan.options.num_choices = num_choices;
  plan.options.max_tokens = max_tokens;
  plan.prompts = {{{1, 2, 3}, "", {}, max_tokens}};
  return plan;
}

TEST(limit_answer, what_fits_is_left_alone) {
  generation_plan plan = plan_of(100);
  limit_answer(plan, 10'000);
  EXPECT_EQ(plan.prompts[0].max_tokens, 100);
}

TEST(limit_answer, choices_tokens_and_logprobs_count) {
  EXPECT_NO_THROW({
    auto plan = plan_of(1000);
    limit_answer(plan, 10'000);
  });
  auto wide = plan_of(1000, 10);
  EXPECT_THROW(limit_answer(wide, 10'000), api_error);
  auto scored = plan_of(1000);
  scored.options.logprobs = 5;
  EXPECT_THROW(limit_answer(scored, 10'000), api_error);
  auto echoed = plan_of(1);
  echoed.options.prompt_logprobs = 20;
  echoed.prompts[0].tokens.resize(1000);
  try {
    limit_answer(echoed, 10'000);
    ADD_FAILURE() << "a large prompt with logprobs passes";
  } catch (const api_error& e) {
    EXPECT_EQ(e.status, 400U);
    EXPECT_EQ(e.param, "prompt_logprobs");
  }
}

TEST(limit_answer, a_stream_may_have_any_size) {
  auto plan = plan_of(1'000'000, 100);
  plan.options.stream = true;
  EXPECT_NO_THROW(limit_answer(plan, 1000));
}

TEST(limit_answer, an_open_number_of_tokens_is_as_many_as_fit) {
  auto plan = plan_of(1'000'000, 2);
  plan.options.max_tokens.reset();
  plan.options.logprobs = 0;
  limit_answer(plan, 1 << 20);
  EXPECT_LT(plan.prompts[0].max_tokens, 10'000);
  EXPECT_GT(plan.prompts[0].max_tokens, 1000);
  plan.prompts[0].max_tokens = 1'000'000;
  plan.options.sampling.min_tokens = 100'000;
  EXPECT_THROW(limit_answer(plan, 1 << 20), api_error);
}

} // namespace
} // namespace troupe::openai
