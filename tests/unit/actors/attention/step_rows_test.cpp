#include "actors/attention/step_rows.hpp"

#include <array>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace troupe {
namespace {

step_sequence sequence_of(std::vector<std::int32_t> tokens, std::uint32_t num_prompt, block_table blocks) {
  auto known = std::make_shared<sequence_tokens>();
  known->tokens = std::move(tokens);
  known->num_prompt = num_prompt;
  known->sampling.allowed_token_ids = {5};
  return {known, std::make_shared<std::vector<block_table>>(1, std::move(blocks))};
}

TEST(step_rows, a_slice_becomes_rows_with_their_tokens_and_slots) {
  attention_step step;
  add_slice(step, sequence_of({10, 11, 12, 13, 14, 15}, 6, {7, 3}), {1, 2, 3, false}, 4, false);
  add_slice(step, sequence_of({20, 21, 22}, 2, {9}), {2, 2, 1, true}, 4, false);
  ASSERT_EQ(step.sequences.size(), 2U);
  ASSERT_EQ(step.rows.size(), 4U);
  const std::vector<std::array<std::uint32_t, 4>> expected{
      {12, 2, 0, 7 * 4 + 2}, {13, 3, 0, 7 * 4 + 3}, {14, 4, 0, 3 * 4}, {22, 2, 1, 9 * 4 + 2}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [token, position, sequence, slot] = step.rows[i];
    EXPECT_EQ((std::array{token, position, sequence, slot}), expected[i]);
  }
  ASSERT_EQ(step.wanted.size(), 1U) << "the first slice does not reach the last known token";
  EXPECT_EQ(step.wanted[0].row, 3U);
  EXPECT_EQ(step.wanted[0].position, 3U);
  EXPECT_EQ(step.wanted[0].purpose, token_purpose::sample);
  EXPECT_EQ(step.wanted[0].allowed.front(), 5);
}

TEST(step_rows, prompt_tokens_behind_the_rows_are_reported_when_wanted) {
  attention_step step;
  // A prompt of four tokens that is replayed with one emitted token.
  add_slice(step, sequence_of({10, 11, 12, 13, 14}, 4, {7, 3}), {1, 1, 4, true}, 4, true);
  ASSERT_EQ(step.wanted.size(), 3U);
  EXPECT_EQ(step.wanted[0].position, 2U);
  EXPECT_EQ(step.wanted[0].purpose, token_purpose::report);
  EXPECT_EQ(step.wanted[1].position, 3U);
  EXPECT_EQ(step.wanted[1].purpose, token_purpose::report);
  EXPECT_EQ(step.wanted[2].position, 5U);
  EXPECT_EQ(step.wanted[2].purpose, token_purpose::sample);
}

} // namespace
} // namespace troupe
