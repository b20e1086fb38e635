#include "load/score.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::load {
namespace {

nlohmann::json logprobs(const char* names, const char* offsets, const char* values) {
  return {{"tokens", nlohmann::json::parse(names)},
          {"text_offset", nlohmann::json::parse(offsets)},
          {"token_logprobs", nlohmann::json::parse(values)}};
}

TEST(score, counts_all_bytes_behind_a_begin_token) {
  score s = score_echo("höhe", logprobs(R"(["<s>","h","öh","e"])", "[0,0,1,3]", "[null,-1,-2,-0.5]"));
  EXPECT_EQ(s.bytes, 5U);
  EXPECT_EQ(s.tokens, 3U);
  EXPECT_DOUBLE_EQ(s.nats, 3.5);
}

TEST(score, leaves_out_the_bytes_of_a_first_token_of_the_text) {
  EXPECT_EQ(score_echo("höhe", logprobs(R"(["hö","he"])", "[0,2]", "[null,-1]")).bytes, 2U);
  // A split character belongs to the token that completes it.
  EXPECT_EQ(score_echo("öde", logprobs(R"(["\ufffd","\ufffdd","e"])", "[0,0,2]", "[null,-1,-1]")).bytes, 4U);
}

TEST(score, of_a_single_token_is_nothing) {
  score s = score_echo("hö", logprobs(R"(["hö"])", "[0]", "[null]"));
  EXPECT_EQ(s.bytes, 0U);
  EXPECT_EQ(s.tokens, 0U);
  EXPECT_EQ(score_echo("", logprobs(R"(["<s>"])", "[0]", "[null]")).bytes, 0U);
}

} // namespace
} // namespace troupe::load
