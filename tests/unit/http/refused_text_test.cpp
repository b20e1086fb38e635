// The exact texts of refusals: the field, the place in it, what is allowed, and what was sent.
#include <gtest/gtest.h>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/request.hpp"
#include "tests/unit/http/fake_codec.hpp"

namespace troupe::openai {

namespace {

request_limits text_limits() {
  request_limits result;
  result.max_model_len = 100;
  result.vocab_size = http_test::vocab_size;
  result.max_sequences = 8;
  return result;
}

/// The error for a completion's body, preceded by its field.
std::string refusal_of(const std::string& body) {
  try {
    parse_completion_request(body, text_limits());
  } catch (const api_error& e) {
    return e.param + ": " + e.what();
  }
  return "accepted";
}

} // namespace

TEST(refused_text, a_token_id_out_of_range_is_called_one_and_has_its_place) {
  EXPECT_EQ(refusal_of(R"({"prompt":[97,999999]})"),
            "prompt: 'prompt[1]' must be a token id between 0 and 258, got 999999");
  EXPECT_EQ(refusal_of(R"({"prompt":[[97],[98,-1]]})"),
            "prompt: 'prompt[1][1]' must be a token id between 0 and 258, got -1");
  EXPECT_EQ(refusal_of(R"({"prompt":[1e300]})"),
            "prompt: 'prompt[0]' must be a token id between 0 and 258, got 1e+300");
  EXPECT_EQ(refusal_of(R"({"prompt":"a","stop_token_ids":[18446744073709551615]})"),
            "stop_token_ids: 'stop_token_ids[0]' must be a token id between 0 and 258, "
            "got 18446744073709551615");
  try {
    parse_detokenize_request(R"({"tokens":[1,2,300]})", text_limits());
    FAIL();
  } catch (const api_error& e) {
    EXPECT_STREQ(e.what(), "'tokens[2]' must be a token id between 0 and 258, got 300");
  }
}

TEST(refused_text, what_is_no_integer_is_no_token_id) {
  EXPECT_EQ(refusal_of(R"({"prompt":[97,1.5]})"),
            "prompt: 'prompt[1]' must be a token id between 0 and 258, got 1.5");
  EXPECT_EQ(refusal_of(R"({"prompt":[97,"a"]})"),
            "prompt: 'prompt[1]' must be a token id between 0 and 258, not a string");
  EXPECT_EQ(refusal_of(R"({"prompt":[[97],[[98]]]})"),
            "prompt: 'prompt[1][0]' must be a token id between 0 and 258, not an array");
}

TEST(refused_text, a_mixed_list_of_prompts_says_which_two_differ) {
  EXPECT_EQ(
      refusal_of(R"({"prompt":["a",[97]]})"),
      "prompt: 'prompt' must hold prompts of one kind: 'prompt[0]' is a string, 'prompt[1]' is an array");
  EXPECT_EQ(
      refusal_of(R"({"prompt":[[97],"a"]})"),
      "prompt: 'prompt' must hold prompts of one kind: 'prompt[0]' is an array, 'prompt[1]' is a string");
  const std::string forms =
      "prompt: 'prompt' must be a string, an array of strings, an array of token ids or "
      "an array of arrays of token ids";
  EXPECT_EQ(refusal_of(R"({"prompt":["a",null]})"), forms + "; 'prompt[1]' is null");
  EXPECT_EQ(refusal_of(R"({"prompt":{}})"), forms + ", not an object");
  EXPECT_EQ(refusal_of(R"({"prompt":[[97],[]]})"), "prompt: 'prompt[1]' must not be empty");
}

TEST(refused_text, logit_bias_names_every_key_that_is_no_token_id) {
  EXPECT_EQ(refusal_of(R"({"prompt":"a","logit_bias":{"x":1}})"),
            "logit_bias: 'logit_bias' has the key 'x', which is not a token id between 0 and 258");
  EXPECT_EQ(
      refusal_of(R"({"prompt":"a","logit_bias":{"x":1,"7":2,"259":3,"":4,"1.0":5}})"),
      "logit_bias: 'logit_bias' has keys that are not token ids between 0 and 258: 'x', '259', '', '1.0'");
  EXPECT_EQ(refusal_of(R"({"prompt":"a","logit_bias":{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,
                           "i":1,"j":1}})"),
            "logit_bias: 'logit_bias' has keys that are not token ids between 0 and 258: "
            "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 more");
}

TEST(refused_text, what_is_not_served_is_named_and_may_be_left_out) {
  EXPECT_EQ(
      refusal_of(R"({"prompt":"a","structured_outputs":{"json":{}}})"),
      "structured_outputs: 'structured_outputs' asks for structured outputs, and that is not supported: "
      "leave it out");
  EXPECT_EQ(refusal_of(R"({"prompt":"a","guided_json":{"type":"object"}})"),
            "guided_json: 'guided_json' asks for guided decoding, and that is not supported: leave it out");
}

} // namespace troupe::openai
