// Fields beyond OpenAI's core: what they do to the prompt and to sampling, and which are refused by name.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/plan.hpp"
#include "services/gateway/openai/request.hpp"
#include "tests/unit/http/fake_codec.hpp"

namespace troupe::openai {

namespace {

using http_test::fake_codec;

request_limits limits() {
  request_limits result;
  result.max_model_len = 100;
  result.vocab_size = http_test::vocab_size;
  result.max_sequences = 8;
  result.eos_token_ids = {http_test::eos};
  return result;
}

/// `fields` is what follows the prompt: `,"top_p":0`.
generation_plan completion(const std::string& fields, const std::string& prompt = "\"abcdef\"") {
  return make_plan(parse_completion_request("{\"prompt\":" + prompt + fields + "}", limits()), fake_codec{},
                   limits(), 42);
}

generation_plan chat(const std::string& fields, const request_limits& checked = limits(),
                     const std::string& messages = R"([{"role":"user","content":"hi"}])") {
  return make_plan(parse_chat_completion_request("{\"messages\":" + messages + fields + "}", checked),
                   fake_codec{}, checked, 42);
}

/// What the engine is asked.
sampling_params sampling(const std::string& fields) {
  const generation_plan one = completion(fields);
  return sampling_of(one, one.prompts[0]);
}

std::string text_of(const std::vector<std::int32_t>& tokens) {
  return fake_codec{}.decode(tokens, true);
}

template <class Call>
api_error refusal_of(Call call) {
  try {
    call();
  } catch (const api_error& e) {
    return e;
  }
  return api_error(200, "", "it was accepted");
}

void expect_refused(const api_error& error, unsigned status, const std::string& param,
                    const std::string& words) {
  EXPECT_EQ(error.status, status) << error.what();
  EXPECT_EQ(error.param, param) << error.what();
  EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
}

} // namespace

TEST(sampling_fields, top_p_of_zero_is_greedy) {
  const sampling_params one = sampling(R"(,"top_p":0,"temperature":0.9)");
  EXPECT_EQ(one.temperature, 0.0F);
  EXPECT_EQ(one.top_p, 1.0F);
}

TEST(sampling_fields, max_tokens_of_minus_one_is_not_given) {
  const auto given = [](const char* fields) { return chat(fields).options.max_tokens; };
  EXPECT_FALSE(given(R"(,"max_tokens":-1)"));
  EXPECT_FALSE(given(R"(,"max_completion_tokens":-1)"));
  EXPECT_EQ(given(R"(,"max_tokens":3,"max_completion_tokens":-1)"), 3);
}

TEST(sampling_fields, allowed_token_ids_are_a_set) {
  EXPECT_EQ(sampling(R"(,"allowed_token_ids":[9,4,9])").allowed_token_ids, (std::vector<std::int32_t>{4, 9}));
  expect_refused(refusal_of([] { completion(R"(,"allowed_token_ids":[])"); }), 400, "allowed_token_ids",
                 "1 to 16384 ids, got 0");
  expect_refused(refusal_of([] { completion(R"(,"allowed_token_ids":[259])"); }), 400, "allowed_token_ids",
                 "between 0 and 258");
  std::string many = "0";
  for (int i = 0; i < 16384; ++i)
    many += ",0";
  expect_refused(refusal_of([&] { completion(",\"allowed_token_ids\":[" + many + "]"); }), 400,
                 "allowed_token_ids", "got 16385");
}

TEST(sampling_fields, bad_words_are_tokenized_with_and_without_a_blank) {
  // The byte codec gives " x" one token more than "x", so that vLLM's rule keeps the plain form alone.
  EXPECT_EQ(sampling(R"(,"bad_words":["x","  yz"])").bad_words,
            (std::vector<std::vector<std::int32_t>>{{'x'}, {'y', 'z'}}));

  /// A tokenizer in which words with a blank in front are one token, too.
  struct word_codec : fake_codec {
    std::vector<std::int32_t> encode(std::string_view text, bool add_special_tokens) const override {
      if (text == "cat")
        return {200};
      if (text == " cat")
        return {201};
      return fake_codec::encode(text, add_special_tokens);
    }
  };

  const auto one = make_plan(parse_completion_request(R"({"prompt":"a","bad_words":["cat"]})", limits()),
                             word_codec{}, limits(), 1);
  EXPECT_EQ(sampling_of(one, one.prompts[0]).bad_words,
            (std::vector<std::vector<std::int32_t>>{{200}, {201}}));
}

TEST(sampling_fields, bad_words_have_bounds) {
  const auto refused = [](const std::string& words) {
    return refusal_of([&] { completion(",\"bad_words\":" + words); });
  };
  expect_refused(refused("\"x\""), 400, "bad_words", "an array");
  expect_refused(refused("[1]"), 400, "bad_words", "must hold strings");
  expect_refused(refused("[\"\"]"), 400, "bad_words", "empty string");
  expect_refused(refused("[\"  \"]"), 400, "bad_words", "no tokens");
  expect_refused(refused("[\"" + std::string(65, 'x') + "\"]"), 400, "bad_words",
                 "at most 64 tokens, got 65");
  expect_refused(refused("[\"" + std::string(257, 'x') + "\"]"), 400, "bad_words", "256 bytes");
  std::string many = "\"x\"";
  for (int i = 0; i < 512; ++i)
    many += ",\"x\"";
  expect_refused(refused("[" + many + "]"), 400, "bad_words", "at most 512 strings, got 513");
  expect_refused(refusal_of([] { completion(R"(,"bad_words":["x"],"allowed_token_ids":[120])"); }), 400,
                 "bad_words", "every one of 'allowed_token_ids'");
}

// What a request lists can be 350 KiB, and a request can have hundreds of prompts.
TEST(sampling_fields, hundreds_of_prompts_share_one_list) {
  static_assert(sizeof(planned_prompt) < sizeof(sampling_params), "a prompt has no sampling of its own");
  request_limits many = limits();
  many.max_sequences = 512;
  std::string prompts = R"(["abc")";
  for (int i = 1; i < 512; ++i)
    prompts += R"(,"a")";
  std::size_t lists = 0;
  fake_codec codec;
  codec.before_encode = [&](std::string_view text) { lists += text == "xyz" ? 1 : 0; };
  const auto one =
      make_plan(parse_completion_request(
                    R"({"bad_words":["xyz"],"allowed_token_ids":[1,2],"prompt":)" + prompts + "]}", many),
                codec, many, 7);
  ASSERT_EQ(one.prompts.size(), 512U);
  EXPECT_EQ(lists, 1U);
  sampling_params expected = one.options.sampling;
  EXPECT_EQ(expected.bad_words, (std::vector<std::vector<std::int32_t>>{{'x', 'y', 'z'}}));
  EXPECT_EQ(expected.allowed_token_ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(expected.seed, 7U);
  for (const planned_prompt& prompt : one.prompts) {
    expected.max_tokens = prompt.max_tokens;
    EXPECT_EQ(sampling_of(one, prompt), expected);
  }
}

// Prompts of one request differ in the room that they leave.
TEST(sampling_fields, each_prompt_has_its_own_number_of_new_tokens) {
  const std::string long_prompt = "\"" + std::string(90, 'a') + "\"";
  const auto one = completion("", "[\"a\"," + long_prompt + "]");
  EXPECT_EQ(sampling_of(one, one.prompts[0]).max_tokens, 16);
  EXPECT_EQ(sampling_of(one, one.prompts[1]).max_tokens, 9);
}

TEST(truncation, keeps_the_last_tokens_unless_told_otherwise) {
  const auto cut = [](const std::string& fields) {
    return text_of(completion(R"(,"add_special_tokens":false)" + fields).prompts[0].tokens);
  };
  EXPECT_EQ(cut(R"(,"truncate_prompt_tokens":4)"), "cdef");
  EXPECT_EQ(cut(R"(,"truncate_prompt_tokens":4,"truncation_side":"left")"), "cdef");
  EXPECT_EQ(cut(R"(,"truncate_prompt_tokens":4,"truncation_side":"right")"), "abcd");
  EXPECT_EQ(cut(R"(,"truncate_prompt_tokens":6)"), "abcdef");
  EXPECT_EQ(cut(R"(,"truncate_prompt_tokens":1000)"), "abcdef");
  EXPECT_EQ(cut(R"(,"truncate_prompt_tokens":null)"), "abcdef");
}

TEST(truncation, of_minus_one_leaves_room_for_the_new_tokens) {
  const std::string prompt = "\"" + std::string(500, 'a') + "b\"";
  const auto with = [&](const std::string& fields) {
    return completion(R"(,"truncate_prompt_tokens":-1)" + fields, prompt).prompts[0];
  };
  EXPECT_EQ(with(R"(,"max_tokens":30)").tokens.size(), 70U);
  EXPECT_EQ(with(R"(,"max_tokens":30)").tokens.back(), 'b');
  EXPECT_EQ(with("").tokens.size(), 99U);
  EXPECT_EQ(with("").max_tokens, 1);
  EXPECT_EQ(chat(R"(,"truncate_prompt_tokens":-1,"max_tokens":90)").prompts[0].tokens.size(), 10U);
}

TEST(truncation, echoes_what_is_left) {
  EXPECT_EQ(completion(R"(,"truncate_prompt_tokens":2,"echo":true)").prompts[0].echo, "ef");
}

TEST(truncation, refusals_name_the_field) {
  expect_refused(refusal_of([] { completion(R"(,"truncate_prompt_tokens":-2)"); }), 400,
                 "truncate_prompt_tokens", "between -1");
  expect_refused(refusal_of([] { completion(R"(,"truncate_prompt_tokens":0)"); }), 400,
                 "truncate_prompt_tokens", "must be -1 or at least 1, got 0");
  // The new tokens alone are more than the context: that, and not an empty prompt, is what is wrong.
  for (const std::string max_tokens : {"100", "1000"}) {
    const auto fields = R"(,"truncate_prompt_tokens":-1,"max_tokens":)" + max_tokens;
    const std::string words = "(1 in the prompt, " + max_tokens + " in the completion)";
    const api_error of_completion = refusal_of([&] { completion(fields); });
    expect_refused(of_completion, 400, "prompt", words);
    EXPECT_EQ(of_completion.code, "context_length_exceeded");
    const api_error of_chat = refusal_of([&] { chat(fields); });
    expect_refused(of_chat, 400, "messages", words);
    EXPECT_EQ(of_chat.code, "context_length_exceeded");
  }
  EXPECT_EQ(completion(R"(,"truncate_prompt_tokens":-1,"max_tokens":99)").prompts[0].tokens.size(), 1U);
  expect_refused(refusal_of([] { completion(R"(,"truncation_side":"middle")"); }), 400, "truncation_side",
                 "'left' or 'right'");
}

TEST(template_fields, become_variables) {
  const auto extra = [](const std::string& fields) {
    const auto parsed = parse_chat_completion_request(
        R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}", limits());
    return parsed.chat.extra;
  };
  EXPECT_EQ(extra(R"(,"reasoning_effort":"high")"), R"({"reasoning_effort":"high"})");
  EXPECT_EQ(extra(R"(,"chat_template_kwargs":{"reasoning_effort":"low","x":1},"reasoning_effort":"high")"),
            R"({"reasoning_effort":"high","x":1})");
  EXPECT_EQ(extra(R"(,"enable_thinking":false,"thinking":true)"),
            R"({"enable_thinking":false,"thinking":true})");
  EXPECT_EQ(extra(R"(,"reasoning_effort":null)"), "");
  expect_refused(refusal_of([&] { extra(R"(,"reasoning_effort":"most")"); }), 400, "reasoning_effort",
                 "xhigh or max, not 'most'");
  expect_refused(refusal_of([&] { extra(R"(,"thinking":{"type":"enabled"})"); }), 422, "thinking",
                 "true and false");
}

TEST(template_fields, a_template_of_the_request_needs_the_operators_flag) {
  for (const char* fields : {R"(,"chat_template":"x")", R"(,"chat_template_kwargs":{"chat_template":"x"})"}) {
    const api_error error = refusal_of([&] { chat(fields); });
    EXPECT_EQ(error.status, 422U);
    EXPECT_NE(std::string(error.what()).find("--trust-request-chat-template"), std::string::npos);
    request_limits trusting = limits();
    trusting.trust_chat_template = true;
    EXPECT_EQ(text_of(chat(fields, trusting).prompts[0].tokens), R"(T:x[{"role":"user","content":"hi"}]A:)");
  }
}

TEST(template_fields, a_models_lack_of_a_template_is_made_up_for) {
  request_limits trusting = limits();
  trusting.trust_chat_template = true;
  fake_codec plain;
  plain.has_template = false;
  const auto asked = parse_chat_completion_request(
      R"({"messages":[{"role":"user","content":"hi"}],"chat_template":"x"})", trusting);
  EXPECT_EQ(make_plan(asked, plain, trusting, 1).prompts.size(), 1U);
}

TEST(template_fields, a_template_of_the_request_has_a_bound) {
  request_limits trusting = limits();
  trusting.trust_chat_template = true;
  trusting.max_model_len = 4 << 20;
  const auto with = [&](std::size_t bytes, bool inner) {
    const std::string field = "\"chat_template\":\"" + std::string(bytes, 'x') + "\"";
    return chat(inner ? ",\"chat_template_kwargs\":{" + field + "}" : "," + field, trusting);
  };
  for (const bool inner : {false, true}) {
    EXPECT_EQ(with(1 << 20, inner).prompts.size(), 1U);
    expect_refused(refusal_of([&] { with((1 << 20) + 1, inner); }), 400,
                   inner ? "chat_template_kwargs.chat_template" : "chat_template",
                   "at most 1048576 bytes long, got 1048577");
  }
}

TEST(continue_final_message, ends_the_prompt_within_the_last_message) {
  const std::string messages = R"([{"role":"user","content":"hi"},{"role":"assistant","content":"I say "}])";
  EXPECT_EQ(text_of(chat(R"(,"continue_final_message":true)", limits(), messages).prompts[0].tokens),
            R"([{"role":"user","content":"hi"},{"role":"assistant","content":"I say )");
  EXPECT_EQ(
      text_of(chat(R"(,"continue_final_message":true,"add_generation_prompt":false)", limits(), messages)
                  .prompts[0]
                  .tokens),
      R"([{"role":"user","content":"hi"},{"role":"assistant","content":"I say )");
  expect_refused(refusal_of([&] {
                   chat(R"(,"continue_final_message":true,"add_generation_prompt":true)", limits(), messages);
                 }),
                 400, "continue_final_message", "cannot both be true");
}

TEST(continue_final_message, follows_a_template_that_trims_or_leaves_out) {
  struct trimming_codec : fake_codec {
    std::string render(const text::chat_request& request) const override {
      if (request.messages.find("leave out") != std::string_view::npos)
        return "nothing";
      const auto messages = nlohmann::json::parse(request.messages);
      auto last = messages.back()["content"].get<std::string>();
      last.resize(last.find_last_not_of(' ') + 1);
      return "<" + last + "|end>";
    }
  };

  const auto prompt_of = [](const std::string& content) {
    const auto asked = parse_chat_completion_request(R"({"messages":[{"role":"assistant","content":")"
                                                         + content + R"("}],"continue_final_message":true})",
                                                     limits());
    return text_of(make_plan(asked, trimming_codec{}, limits(), 1).prompts[0].tokens);
  };
  EXPECT_EQ(prompt_of("I say  "), "<I say");
  EXPECT_EQ(prompt_of("CONTINUE_FINAL_MESSAGE_TAG x"), "<CONTINUE_FINAL_MESSAGE_TAG x");
  expect_refused(refusal_of([&] { prompt_of("leave out"); }), 400, "continue_final_message",
                 "does not write the last message");
}

TEST(unserved_fields, are_refused_by_name) {
  const char* asked[] = {
      R"("grammar":"root ::= x")",
      R"("json_schema":{"type":"object"})",
      R"("regex":"a+")",
      R"("stop_regex":"a+")",
      R"("thinking_token_budget":5)",
      R"("reasoning_format":"parsed")",
      R"("length_penalty":0.5)",
      R"("audio":{"voice":"a"})",
      R"("web_search_options":{"search_context_size":"low"})",
      R"("verbosity":"low")",
      R"("vllm_xargs":{"a":1})",
      R"("repetition_detection":{"min_count":2})",
      R"("mirostat":2)",
      R"("typical_p":0.9)",
      R"("samplers":["top_k"])",
      R"("n_predict":5)",
      R"("logprob_token_ids":[1])",
      R"("ebnf":"x")",
      R"("no_repeat_ngram_size":2)",
      R"("repeat_penalty":1.1)",
      R"("min_new_tokens":4)",
      R"("guided_choice":["a"])",
      R"("structured_outputs":{"json":{}})",
      R"("spaces_between_special_tokens":false,"skip_special_tokens":false)",
  };
  for (const std::string field : asked) {
    const std::string name = field.substr(1, field.find('"', 1) - 1);
    for (const bool as_chat : {false, true}) {
      const api_error error = refusal_of([&] { as_chat ? chat("," + field) : completion("," + field); });
      expect_refused(error, 422, name, "'" + name + "'");
    }
  }
  expect_refused(refusal_of([] { chat(R"(,"function_call":{"name":"f"})"); }), 422, "function_call",
                 "use 'tools'");
  expect_refused(refusal_of([] { chat(R"(,"n_predict":5,"max_tokens":6)"); }), 422, "n_predict",
                 "'max_tokens'");
  expect_refused(refusal_of([] { chat(R"(,"thinking":{"type":"enabled","budget_tokens":5})"); }), 422,
                 "thinking", "disabled");
}

TEST(unserved_fields, pass_where_they_ask_for_nothing) {
  EXPECT_NO_THROW(chat(R"(,"grammar":null,"regex":"","thinking_token_budget":-1,"include_reasoning":true,
      "reasoning_format":"none","length_penalty":1.0,"audio":null,"verbosity":"medium","vllm_xargs":{},
      "mirostat":0,"typical_p":1,"samplers":[],"n_predict":-1,"spaces_between_special_tokens":false,
      "parallel_tool_calls":false,"tools":[],"cache_salt":"abc","repeat_penalty":1.0,"guided_choice":[],"guided_regex":"","guided_grammar":"",
      "metadata":{"a":"b"},"store":false,"service_tier":"auto")"));
  EXPECT_NO_THROW(chat(R"(,"parallel_tool_calls":false,"tools":[{"type":"function"}],"functions":[],
      "function_call":"auto","web_search_options":{},"include_reasoning":false,"guided_json":{},"guided_regex":"",
      "json_schema":{},"reasoning":{"enabled":false},"response_format":{},"audio":{},"grammar":"",
      "stream_options":{"include_usage":false})"));
  EXPECT_NO_THROW(
      completion(R"(,"n_predict":5,"max_tokens":5,"repeat_penalty":1.5,"repetition_penalty":1.5)"));
}

TEST(asked_for_nothing, thinking_that_is_disabled_is_a_variable_that_is_false) {
  const auto asked = parse_chat_completion_request(
      R"({"messages":[{"role":"user","content":"a"}],"thinking":{"type":"disabled"},"enable_thinking":true})",
      limits());
  EXPECT_EQ(json::parse(asked.chat.extra), json::parse(R"({"enable_thinking":true,"thinking":false})"));
}

TEST(asked_for_nothing, minus_one_is_no_seed_and_no_limit) {
  const auto asked = parse_completion_request(R"({"prompt":"abc","seed":-1,"max_tokens":-1})", limits());
  const auto plan = make_plan(asked, fake_codec{}, limits(), 77);
  EXPECT_EQ(plan.seed, 77);
  EXPECT_EQ(static_cast<std::size_t>(plan.prompts[0].max_tokens),
            limits().max_model_len - plan.prompts[0].tokens.size());
}

// Token amounts and ids of calls that clients send back.
TEST(wide_integers, reach_the_template_as_they_were_sent) {
  const auto asked = parse_chat_completion_request(
      R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f",
          "arguments":"{\"wei\":1725000000000000000001,\"d\":-0.5}"}}]},
          {"role":"user","content":"\u0001integer:5 and 99999999999999999999"}],
          "tools":[{"type":"function","function":{"maximum":-115792089237316195423570985008687907853269984665640564039457}}]})",
      limits());
  EXPECT_NE(asked.chat.messages.find(R"("arguments":{"wei":1725000000000000000001,"d":-0.5})"),
            std::string::npos)
      << asked.chat.messages;
  EXPECT_NE(asked.chat.messages.find(R"("content":"\u0001integer:5 and 99999999999999999999")"),
            std::string::npos)
      << asked.chat.messages;
  EXPECT_NE(
      asked.chat.tools.find("\"maximum\":-115792089237316195423570985008687907853269984665640564039457"),
      std::string::npos)
      << asked.chat.tools;
}

TEST(wide_integers, are_out_of_range_elsewhere) {
  for (const char* name : {"seed", "n", "temperature", "priority"}) {
    const auto error = refusal_of(
        [&] { completion(std::string(",\"") + name + "\":-340282366920938463463374607431768211456"); });
    expect_refused(error, 400, name, "got -340282366920938463463374607431768211456");
  }
  expect_refused(refusal_of([] { completion(R"(,"stop_token_ids":[99999999999999999999])"); }), 400,
                 "stop_token_ids", "got 99999999999999999999");
  expect_refused(refusal_of([] { completion(R"(,"stop":[99999999999999999999])"); }), 400, "stop",
                 "must hold strings, not an integer");
}

} // namespace troupe::openai
