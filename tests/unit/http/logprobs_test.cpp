#include "services/gateway/openai/logprobs.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/unit/http/fake_codec.hpp"

namespace troupe::openai {

namespace {

using http_test::fake_codec;

/// 'b' at -0.5, after 'a' at -0.25.
placed_token sample() {
  placed_token placed;
  placed.token.token = 'b';
  placed.token.logprob = -0.5F;
  placed.token.rank = 2;
  placed.token.top = {{'a', -0.25F, 1}, {'b', -0.5F, 2}};
  placed.text_offset = 3;
  return placed;
}

nlohmann::json plain(const nlohmann::ordered_json& value) {
  return nlohmann::json::parse(value.dump());
}

} // namespace

TEST(logprobs, legacy_arrays_hold_the_sampled_token_once) {
  const fake_codec codec;
  EXPECT_EQ(plain(legacy_logprobs(std::vector{sample()}, {codec, 2})),
            nlohmann::json::parse(R"({"text_offset":[3],"token_logprobs":[-0.5],"tokens":["b"],
                            "top_logprobs":[{"a":-0.25,"b":-0.5}]})"));
  // One alternative is requested, and it is not the sampled token: there are two.
  EXPECT_EQ(plain(legacy_logprobs(std::vector{sample()}, {codec, 1}))["top_logprobs"],
            nlohmann::json::parse(R"([{"a":-0.25,"b":-0.5}])"));
  EXPECT_EQ(plain(legacy_logprobs(std::vector{sample()}, {codec, 0}))["top_logprobs"],
            nlohmann::json::parse(R"([{"b":-0.5}])"));
}

TEST(logprobs, the_first_prompt_token_has_none) {
  const fake_codec codec;
  generated_token second;
  second.token = 'b';
  second.logprob = -1;
  second.rank = 1;
  second.top = {{'b', -1, 1}};
  const auto placed = place_prompt({http_test::bos, 'b'}, {0, 0}, {second});
  EXPECT_EQ(plain(legacy_logprobs(placed, {codec, 1})),
            nlohmann::json::parse(R"({"text_offset":[0,0],"token_logprobs":[null,-1.0],"tokens":["<bos>","b"],
                            "top_logprobs":[null,{"b":-1.0}]})"));
}

TEST(logprobs, infinities_are_written_as_openai_writes_them) {
  const fake_codec codec;
  placed_token never = sample();
  never.token.logprob = -std::numeric_limits<float>::infinity();
  never.token.top[1].logprob = std::nanf("");
  const nlohmann::json written = plain(legacy_logprobs(std::vector{never}, {codec, 2}));
  EXPECT_EQ(written["token_logprobs"][0], -9999.0);
  EXPECT_EQ(written["top_logprobs"][0]["b"], -9999.0);
}

TEST(logprobs, chat_form_lists_bytes_and_likely_tokens_the_chosen_one_first) {
  const fake_codec codec;
  placed_token half = sample();
  half.token.token = 0xC3;
  EXPECT_EQ(plain(chat_logprobs(std::vector{half}, {codec, 2})), nlohmann::json::parse(R"({"content":[
      {"token":"\ufffd","logprob":-0.5,"bytes":[195],
       "top_logprobs":[{"token":"\ufffd","logprob":-0.5,"bytes":[195]},
                       {"token":"a","logprob":-0.25,"bytes":[97]}]}],"refusal":null})"));
  EXPECT_EQ(plain(chat_logprobs(std::vector{half}, {codec, 0}))["content"][0]["top_logprobs"],
            nlohmann::json::array());
}

TEST(logprobs, tokens_can_be_named_by_id) {
  const fake_codec codec;
  EXPECT_EQ(plain(legacy_logprobs(std::vector{sample()}, {codec, 1, true}))["tokens"],
            nlohmann::json::parse(R"(["token_id:98"])"));
}

TEST(logprobs, prompt_logprobs_are_keyed_by_token_id) {
  const fake_codec codec;
  EXPECT_EQ(plain(prompt_logprobs(std::vector{sample().token}, codec)), nlohmann::json::parse(R"([null,{
      "98":{"logprob":-0.5,"rank":2,"decoded_token":"b"},
      "97":{"logprob":-0.25,"rank":1,"decoded_token":"a"}}])"));
}

} // namespace troupe::openai
