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
  planned_prompt planned(const std::string& prompt, const std::string& more = "") const {
    return planned_by(codec, prompt, more);
  }

  static planned_prompt planned_by(const text_codec& used, const std::string& prompt,
                                   const std::string& more = "") {
    request_limits limits;
    limits.max_model_len = 100;
    limits.vocab_size = http_test::vocab_size;
    auto request = parse_completion_request(
        R"({"echo":true,"logprobs":1,"max_tokens":1,"prompt":)" + prompt + more + "}", limits);
    return make_plan(std::move(request), used, limits, 1).prompts.at(0);
  }

  http_test::fake_codec codec;
};

using tokens = std::vector<std::int32_t>;
using echoed = std::vector<std::size_t>;

} // namespace

TEST_F(echo_test, a_text_is_repeated_as_sent_and_what_the_tokenizer_adds_has_no_place_in_it) {
  codec.adds_end = true;
  const auto one = planned(R"("äb")");
  EXPECT_EQ(one.tokens, (tokens{bos, 0xC3, 0xA4, 'b', eos}));
  EXPECT_EQ(one.echo, "äb");
  EXPECT_EQ(one.echo_offsets, (echoed{0, 0, 0, 1, 2}));
}

TEST_F(echo_test, special_tokens_that_a_text_names_are_part_of_it) {
  const auto one = planned(R"("<bos>a<eos>b")");
  EXPECT_EQ(one.tokens, (tokens{bos, bos, 'a', eos, 'b'})); // the first is the tokenizer's
  EXPECT_EQ(one.echo, "<bos>a<eos>b");
  EXPECT_EQ(one.echo_offsets, (echoed{0, 0, 5, 6, 11}));
  const auto bare = planned(R"("<bos>a<eos>b")", R"(,"add_special_tokens":false)");
  EXPECT_EQ(bare.tokens, (tokens{bos, 'a', eos, 'b'}));
  EXPECT_EQ(bare.echo_offsets, (echoed{0, 5, 6, 11}));
}

TEST_F(echo_test, token_ids_are_repeated_with_their_special_tokens) {
  for (const std::string skip : {"true", "false"}) {
    const auto one = planned("[257,97,256,98]", R"(,"skip_special_tokens":)" + skip);
    EXPECT_EQ(one.echo, "<bos>a<eos>b");
    EXPECT_EQ(one.echo_offsets, (echoed{0, 5, 6, 11}));
  }
}

TEST_F(echo_test, what_is_left_of_a_text_that_was_cut_has_offsets_of_its_own) {
  const auto end = planned(R"("abäcd")", R"(,"truncate_prompt_tokens":4)");
  EXPECT_EQ(end.tokens, (tokens{0xC3, 0xA4, 'c', 'd'}));
  EXPECT_EQ(end.echo, "äcd");
  EXPECT_EQ(end.echo_offsets, (echoed{0, 0, 1, 2}));
  // Its special tokens are repeated, too, like those of token ids.
  const auto front = planned(R"("abäcd")", R"(,"truncate_prompt_tokens":3,"truncation_side":"right")");
  EXPECT_EQ(front.tokens, (tokens{bos, 'a', 'b'}));
  EXPECT_EQ(front.echo, "<bos>ab");
  EXPECT_EQ(front.echo_offsets, (echoed{0, 5, 6}));
  // One that is short enough is not truncated, and is repeated as sent.
  const auto whole = planned(R"("ab")", R"(,"truncate_prompt_tokens":3)");
  EXPECT_EQ(whole.echo, "ab");
  EXPECT_EQ(whole.echo_offsets, (echoed{0, 0, 1}));
}

TEST_F(echo_test, tokens_that_differ_where_special_ones_are_added_are_placed_from_the_first) {
  /// A tokenizer with another token for the first word after the beginning of the text.
  struct opening_codec : http_test::fake_codec {
    std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const override {
      if (add_special_tokens && text == "Hello!!")
        return {bos, http_test::hello, '!', '!'};
      return fake_codec::encode(text, add_special_tokens);
    }
  };

  const auto one = planned_by(opening_codec{}, R"("Hello!!")");
  EXPECT_EQ(one.tokens, (tokens{bos, http_test::hello, '!', '!'}));
  EXPECT_EQ(one.echo, "Hello!!");
  // "<bos>" counts with them, since the start of the text's own tokens is unknown; none starts beyond the
  // text.
  EXPECT_EQ(one.echo_offsets, (echoed{0, 5, 7, 7}));
}

TEST_F(echo_test, no_token_is_placed_beyond_a_text_that_its_normalizer_has_lengthened) {
  codec.splits_ligatures = true;
  const auto one = planned(R"("aﬁﬁb")");
  EXPECT_EQ(one.tokens, (tokens{bos, 'a', 'f', 'i', 'f', 'i', 'b'}));
  EXPECT_EQ(one.echo, "aﬁﬁb");
  EXPECT_EQ(one.echo_offsets, (echoed{0, 0, 1, 2, 3, 4, 4})); // of four characters
}

TEST_F(echo_test, offsets_are_made_only_where_they_are_shown) {
  EXPECT_TRUE(planned(R"("ab")", R"(,"logprobs":null)").echo_offsets.empty());
}

} // namespace troupe::openai
