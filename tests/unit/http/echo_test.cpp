// An echoed prompt: its text, and where its tokens begin in it.
#include <gtest/gtest.h>

#include "services/gateway/openai/plan.hpp"
#include "tests/unit/http/fake_codec.hpp"

namespace troupe::openai {

namespace {

using http_test::bos;
using http_test::eos;

class echo_test : public testing::Test {
 protected:
  planned_prompt planned(const std::string& prompt, const std::string& more = "") {
    request_limits limits;
    limits.max_model_len = 100;
    limits.vocab_size = http_test::vocab_size;
    auto request = parse_completion_request(
        R"({"echo":true,"logprobs":1,"max_tokens":1,"prompt":)" + prompt + more + "}", limits);
    return make_plan(std::move(request), codec, limits, 1).prompts.at(0);
  }

  http_test::fake_codec codec;
};

using tokens = std::vector<int32_t>;
using offsets = std::vector<size_t>;

} // namespace

TEST_F(echo_test, a_text_is_repeated_as_sent_and_what_the_tokenizer_adds_has_no_place_in_it) {
  codec.adds_end = true;
  const auto one = planned(R"("äb")");
  EXPECT_EQ(one.tokens, (tokens{bos, 0xC3, 0xA4, 'b', eos}));
  EXPECT_EQ(one.echo, "äb");
  EXPECT_EQ(one.echo_offsets, (offsets{0, 0, 0, 1, 2}));
}

TEST_F(echo_test, special_tokens_that_a_text_names_are_part_of_it) {
  const auto one = planned(R"("<bos>a<eos>b")");
  EXPECT_EQ(one.tokens, (tokens{bos, bos, 'a', eos, 'b'})); // the first is the tokenizer's
  EXPECT_EQ(one.echo, "<bos>a<eos>b");
  EXPECT_EQ(one.echo_offsets, (offsets{0, 0, 5, 6, 11}));
  const auto bare = planned(R"("<bos>a<eos>b")", R"(,"add_special_tokens":false)");
  EXPECT_EQ(bare.tokens, (tokens{bos, 'a', eos, 'b'}));
  EXPECT_EQ(bare.echo_offsets, (offsets{0, 5, 6, 11}));
}

TEST_F(echo_test, token_ids_are_repeated_with_their_special_tokens) {
  for (const std::string skip : {"true", "false"}) {
    const auto one = planned("[257,97,256,98]", R"(,"skip_special_tokens":)" + skip);
    EXPECT_EQ(one.echo, "<bos>a<eos>b");
    EXPECT_EQ(one.echo_offsets, (offsets{0, 5, 6, 11}));
  }
}

TEST_F(echo_test, offsets_are_made_only_where_they_are_shown) {
  EXPECT_TRUE(planned(R"("ab")", R"(,"logprobs":null)").echo_offsets.empty());
}

} // namespace troupe::openai
