#include "services/gateway/openai/request.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "services/gateway/openai/api_error.hpp"
#include "services/gateway/openai/plan.hpp"
#include "tests/unit/http/fake_codec.hpp"

namespace troupe::openai {

namespace {

using http_test::fake_codec;
using nlohmann::json;

request_limits limits() {
  request_limits result;
  result.max_model_len = 100;
  result.vocab_size = http_test::vocab_size;
  result.max_sequences = 8;
  result.eos_token_ids = {http_test::eos};
  return result;
}

completion_request completion(const std::string& body) {
  return parse_completion_request(body, limits());
}

chat_completion_request chat(const std::string& body) {
  return parse_chat_completion_request(body, limits());
}

generation_plan plan(const std::string& body) {
  return make_plan(completion(body), fake_codec{}, limits(), 42);
}

/// An element N times, separated by commas.
std::string many(const std::string& element, int times) {
  std::string list = element;
  for (int i = 1; i < times; ++i)
    list += "," + element;
  return list;
}

/// A body that is refused, with the field in the error and words of the message.
struct refusal {
  std::string body;
  std::string param;
  std::string words;
  unsigned status = 400;
};

void expect_refused(const refusal& expected, bool as_chat) {
  try {
    if (as_chat)
      make_plan(chat(expected.body), fake_codec{}, limits(), 42);
    else
      plan(expected.body);
    FAIL() << expected.body << " was accepted";
  } catch (const api_error& e) {
    EXPECT_EQ(e.param, expected.param) << expected.body << ": " << e.what();
    EXPECT_EQ(e.status, expected.status) << expected.body << ": " << e.what();
    EXPECT_NE(std::string(e.what()).find(expected.words), std::string::npos)
        << expected.body << ": " << e.what();
  }
}

} // namespace

TEST(completion_request, defaults_are_openais) {
  const generation_plan one = plan(R"({"model":"m","prompt":"hi"})");
  EXPECT_EQ(one.options.model, "m");
  EXPECT_FALSE(one.options.stream);
  EXPECT_EQ(one.seed, 42);
  ASSERT_EQ(one.prompts.size(), 1U);
  EXPECT_EQ(one.prompts[0].tokens, (std::vector<std::int32_t>{http_test::bos, 'h', 'i'}));
  sampling_params expected;
  expected.seed = 42;
  expected.stop_token_ids = {http_test::eos};
  EXPECT_EQ(sampling_of(one, one.prompts[0]), expected);
}

TEST(completion_request, prompts_come_in_four_forms) {
  EXPECT_EQ(completion(R"({"prompt":"a"})").prompts.size(), 1U);
  const auto texts = completion(R"({"prompt":["a","b"]})").prompts;
  ASSERT_EQ(texts.size(), 2U);
  EXPECT_EQ(texts[1].text, "b");
  const auto ids = completion(R"({"prompt":[1,2,3]})").prompts;
  ASSERT_EQ(ids.size(), 1U);
  EXPECT_FALSE(ids[0].text);
  EXPECT_EQ(ids[0].tokens, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(completion(R"({"prompt":[[1],[2,3]]})").prompts[1].tokens, (std::vector<std::int32_t>{2, 3}));
}

TEST(completion_request, every_field_reaches_the_engine) {
  const generation_plan one = plan(R"({"prompt":"a","n":3,"best_of":3,"max_tokens":7,"temperature":0.5,
      "top_p":0.9,"top_k":40,"min_p":0.1,"repetition_penalty":1.5,"presence_penalty":-1,
      "frequency_penalty":2,"seed":-5,"min_tokens":2,"ignore_eos":true,"stop":["x","y"],
      "stop_token_ids":[9,4],"logit_bias":{"7":-100,"3":1.5},"logprobs":2,"prompt_logprobs":1,"priority":-3,
      "include_stop_str_in_output":true,"skip_special_tokens":false,"return_token_ids":true,"user":"u",
      "add_special_tokens":false,"some_future_field":{"x":1}})");
  sampling_params expected;
  expected.max_tokens = 7;
  expected.temperature = 0.5F;
  expected.top_p = 0.9F;
  expected.top_k = 40;
  expected.min_p = 0.1F;
  expected.repetition_penalty = 1.5F;
  expected.presence_penalty = -1;
  expected.frequency_penalty = 2;
  expected.seed = static_cast<std::uint64_t>(-5);
  expected.min_tokens = 2;
  expected.stop_token_ids = {4, 9};
  expected.logit_bias = {{3, 1.5F}, {7, -100.0F}};
  expected.num_logprobs = 2;
  expected.prompt_logprobs = 1;
  EXPECT_EQ(sampling_of(one, one.prompts[0]), expected);
  EXPECT_EQ(one.prompts[0].tokens, (std::vector<std::int32_t>{'a'}));
  EXPECT_EQ(one.seed, -5);
  EXPECT_EQ(one.options.num_choices, 3U);
  EXPECT_EQ(one.options.priority, -3);
  EXPECT_EQ(one.options.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_TRUE(one.options.include_stop);
  EXPECT_FALSE(one.options.skip_special_tokens);
}

TEST(completion_request, null_is_absent) {
  const generation_plan one = plan(R"({"prompt":"a","temperature":null,"stop":null,"logprobs":null,
      "stream_options":null,"suffix":null,"logit_bias":null,"max_tokens":null})");
  EXPECT_EQ(one.prompts[0].max_tokens, 16);
}

TEST(completion_request, the_models_own_defaults_yield_to_the_requests) {
  request_limits with_defaults = limits();
  with_defaults.defaults.temperature = 0.3F;
  with_defaults.defaults.top_k = 5;
  with_defaults.defaults.max_new_tokens = 9;
  const auto both = make_plan(parse_completion_request(R"({"prompt":"a","top_k":-1})", with_defaults),
                              fake_codec{}, with_defaults, 1);
  EXPECT_EQ(sampling_of(both, both.prompts[0]).temperature, 0.3F);
  EXPECT_EQ(sampling_of(both, both.prompts[0]).top_k, 0);
  EXPECT_EQ(both.prompts[0].max_tokens, 9);
}

TEST(completion_request, echo_with_logprobs_asks_for_the_prompts) {
  const generation_plan one = plan(R"({"prompt":"abc","echo":true,"logprobs":1,"max_tokens":0})");
  EXPECT_EQ(one.prompts[0].max_tokens, 1); // the engine's least; dropped later
  EXPECT_EQ(sampling_of(one, one.prompts[0]).prompt_logprobs, 1);
  EXPECT_EQ(one.prompts[0].echo, "abc");
  EXPECT_EQ(plan(R"({"prompt":[104,105],"echo":true})").prompts[0].echo, "hi");
}

TEST(completion_request, refusals_name_the_field) {
  const refusal cases[] = {
      {"", "", "not valid JSON"},
      {"{", "", "not valid JSON"},
      {"[1]", "", "must be a JSON object, not an array"},
      {"{\"prompt\":\"\xC3(\"}", "", "UTF-8"},
      {R"({"model":"m"})", "prompt", "required"},
      {R"({"prompt":1})", "prompt", "not an integer"},
      {R"({"prompt":[]})", "prompt", "empty"},
      {R"({"prompt":[[]]})", "prompt", "empty"},
      {R"({"prompt":"","add_special_tokens":false})", "prompt", "empty"},
      {R"({"prompt":["a",1]})", "prompt", "'prompt[1]' is an integer"},
      {R"({"prompt":[1,"a"]})", "prompt", "not a string"},
      {R"({"prompt":[[1],"a"]})", "prompt", "'prompt[1]' is a string"},
      {R"({"prompt":[{}]})", "prompt", "'prompt[0]' is an object"},
      {R"({"prompt":[259]})", "prompt", "between 0 and 258"},
      {R"({"prompt":[-1]})", "prompt", "got -1"},
      {R"({"prompt":[1.5]})", "prompt", "got 1.5"},
      {R"({"prompt":["a","b","c"],"n":3})", "n", "at most 8"},
      {R"({"prompt":["a","b","c","d","e","f","g","h","i"]})", "prompt", "at most 8"},
      {R"({"prompt":"untokenizable"})", "prompt", "too hard"},
      {R"({"prompt":"a","model":1})", "model", "must be a string"},
      {R"({"prompt":"a","temperature":"hot"})", "temperature", "must be a number, not a string"},
      {R"({"prompt":"a","temperature":-0.1})", "temperature", "must be at least 0, got -0.1"},
      {R"({"prompt":"a","temperature":true})", "temperature", "not a boolean"},
      {R"({"prompt":"a","top_p":1.01})", "top_p", "between 0 and 1"},
      {R"({"prompt":"a","top_k":-2})", "top_k", "between -1"},
      {R"({"prompt":"a","top_k":1.5})", "top_k", "an integer"},
      {R"({"prompt":"a","min_p":2})", "min_p", "between"},
      {R"({"prompt":"a","repetition_penalty":0})", "repetition_penalty", "between 0.01 and 100"},
      {R"({"prompt":"a","repetition_penalty":1e-40})", "repetition_penalty", "between 0.01 and 100"},
      {R"({"prompt":"a","presence_penalty":3})", "presence_penalty", "between -2 and 2"},
      {R"({"prompt":"a","frequency_penalty":-3})", "frequency_penalty", "between -2 and 2"},
      {R"({"prompt":"a","n":0})", "n", "between 1 and 128"},
      {R"({"prompt":"a","n":129})", "n", "between 1 and 128"},
      {R"({"prompt":"a","n":"2"})", "n", "an integer, not a string"},
      {R"({"prompt":"a","max_tokens":0})", "max_tokens", "unless 'echo'"},
      {R"({"prompt":"a","max_tokens":-2})", "max_tokens", "between 0"},
      {R"({"prompt":"a","max_tokens":1e30})", "max_tokens", "between"},
      {R"({"prompt":"a","max_tokens":98446744073709551615})", "max_tokens", "between"},
      {R"({"prompt":"a","min_tokens":17})", "min_tokens", "exceed"},
      {R"({"prompt":"a","logprobs":21})", "logprobs", "between 0 and 20"},
      {R"({"prompt":"a","logprobs":true})", "logprobs", "not a boolean"},
      {R"({"prompt":"a","prompt_logprobs":-1})", "prompt_logprobs", "between"},
      {R"({"prompt":"a","prompt_logprobs":1,"stream":true})", "prompt_logprobs", "stream"},
      {R"({"prompt":"a","seed":1.5})", "seed", "an integer"},
      {R"({"prompt":"a","seed":18446744073709551615})", "seed", "between"},
      {R"({"prompt":"a","stop":1})", "stop", "a string or an array"},
      {R"({"prompt":"a","stop":[1]})", "stop", "must hold strings"},
      {R"({"prompt":"a","stop":""})", "stop", "empty"},
      {R"({"prompt":"a","stop":[)" + many("\"a\"", 257) + "]}", "stop", "at most 256 strings, got 257"},
      {R"({"prompt":"a","stop":[)" + many('"' + std::string(1000, 'a') + '"', 17) + "]}", "stop",
       "at most 16384 bytes together, got 17000"},
      {R"({"prompt":"a","stop_token_ids":[999]})", "stop_token_ids", "between 0 and 258"},
      {R"({"prompt":"a","stop_token_ids":5})", "stop_token_ids", "an array"},
      {R"({"prompt":"a","logit_bias":{"x":1}})", "logit_bias", "not a token id"},
      {R"({"prompt":"a","logit_bias":{"999":1}})", "logit_bias", "not a token id"},
      {R"({"prompt":"a","logit_bias":{"1":101}})", "logit_bias.1", "between -100 and 100"},
      {R"({"prompt":"a","logit_bias":[1]})", "logit_bias", "an object"},
      {R"({"prompt":"a","stream":"yes"})", "stream", "a boolean"},
      {R"({"prompt":"a","stream_options":{"include_usage":true}})", "stream_options", "only allowed"},
      {R"({"prompt":"a","stream":true,"stream_options":{"include_usage":1}})", "stream_options.include_usage",
       "a boolean"},
      {R"({"prompt":"a","user":{}})", "user", "a string"},
      {R"({"prompt":"a","priority":1e10})", "priority", "between"},
      {R"({"prompt":"a","suffix":"b"})", "suffix", "not supported", 422},
      {R"({"prompt":"a","best_of":2})", "best_of", "equals", 422},
      {R"({"prompt":"a","use_beam_search":true})", "use_beam_search", "beam", 422},
      {R"({"prompt":"a","guided_json":{"type":"object"}})", "guided_json", "guided", 422},
      {R"({"prompt":"a","response_format":{"type":"json_object"}})", "response_format", "json_object", 422},
      {R"({"prompt":"a","response_format":{"x":1}})", "response_format.type", "required"},
  };
  for (const refusal& one : cases)
    expect_refused(one, false);
}

TEST(completion_request, nesting_is_bounded) {
  const std::string deep =
      R"({"prompt":"a","x":)" + std::string(100000, '[') + std::string(100000, ']') + "}";
  expect_refused({deep, "", "nests deeper"}, false);
}

TEST(completion_request, members_of_an_object_are_bounded) {
  const auto with_members = [](std::size_t count) {
    std::string body = R"({"prompt":"a","x":{)";
    for (std::size_t i = 0; i < count; ++i)
      body += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":0";
    return body + "}}";
  };
  EXPECT_EQ(plan(with_members(8000)).prompts.size(), 1U);
  expect_refused({with_members(9000), "", "too many members"}, false);
  // Many small objects need as many comparisons.
  std::string objects = R"({"prompt":"a","x":[{})";
  const std::string object = with_members(100).substr(18); // {"0":0, … }}
  for (int i = 0; i < 7000; ++i)
    objects += "," + object.substr(0, object.size() - 1);
  expect_refused({objects + "]}", "", "too many members"}, false);
}

TEST(completion_request, beyond_the_context_both_numbers_are_said) {
  expect_refused({R"({"prompt":")" + std::string(100, 'a') + R"("})", "prompt", "101 tokens"}, false);
  expect_refused({R"({"prompt":")" + std::string(100, 'a') + R"("})", "prompt", "length is 100 tokens"},
                 false);
  expect_refused(
      {R"({"prompt":"abc","max_tokens":97})", "prompt", "requested 101 tokens (4 in the prompt, 97"}, false);
  EXPECT_EQ(plan(R"({"prompt":"abc","max_tokens":96})").prompts[0].max_tokens, 96);
}

TEST(completion_request, ignore_eos_leaves_what_the_client_named) {
  const std::string end = std::to_string(http_test::eos);
  const auto stops = [](const std::string& more) {
    const generation_plan one = plan(R"({"prompt":"a")" + more + "}");
    return sampling_of(one, one.prompts[0]).stop_token_ids;
  };
  EXPECT_EQ(stops(R"(,"stop_token_ids":[9,4])"), (std::vector<std::int32_t>{4, 9, http_test::eos}));
  EXPECT_EQ(stops(R"(,"ignore_eos":true)"), std::vector<std::int32_t>{});
  EXPECT_EQ(stops(R"(,"ignore_eos":true,"stop_token_ids":[9,)" + end + "]"),
            (std::vector<std::int32_t>{9, http_test::eos}));
  EXPECT_EQ(stops(R"(,"stop_token_ids":[)" + end + "]"), std::vector<std::int32_t>{http_test::eos});
}

TEST(chat_request, the_rest_of_the_context_is_the_default) {
  const auto one =
      make_plan(chat(R"({"messages":[{"role":"user","content":"hi"}]})"), fake_codec{}, limits(), 1);
  const std::string prompt = R"([{"role":"user","content":"hi"}]A:)";
  EXPECT_EQ(one.prompts[0].tokens.size(), prompt.size()); // no BOS: templates write it themselves
  EXPECT_EQ(one.prompts[0].max_tokens, static_cast<std::int32_t>(100 - prompt.size()));
}

TEST(chat_request, contents_and_tool_calls_become_what_templates_expect) {
  const auto asked = chat(R"({"messages":[
      {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
      {"role":"assistant","tool_calls":[{"id":"1","type":"function",
       "function":{"name":"f","arguments":"{\"x\":1}"}}]},
      {"role":"tool","tool_call_id":"1","content":"42"}],
      "tools":[{"type":"function","function":{"name":"f"}}],
      "chat_template_kwargs":{"enable_thinking":false},"add_generation_prompt":false})");
  const json messages = json::parse(asked.chat.messages);
  EXPECT_EQ(messages[0]["content"],
            json::parse(R"([{"type":"text","text":"a"},{"type":"text","text":"b"}])"));
  EXPECT_EQ(messages[1]["tool_calls"][0]["function"]["arguments"], json::parse(R"({"x":1})"));
  EXPECT_EQ(json::parse(asked.chat.tools)[0]["function"]["name"], "f");
  EXPECT_EQ(json::parse(asked.chat.extra), json::parse(R"({"enable_thinking":false})"));
  EXPECT_FALSE(asked.chat.add_generation_prompt);
}

TEST(chat_request, templates_get_members_in_the_order_in_which_they_were_sent) {
  const std::string tools =
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object","properties":{"to":{},"by":{}}}}}])";
  const std::string call = R"({"id":"1","type":"function","function":{"name":"f","arguments":)";
  const auto asked =
      chat(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[)"
           + call + R"("{\"to\":1,\"by\":2}"}}]}],"tools":)" + tools
           + R"(,"chat_template_kwargs":{"z":1,"a":2},"documents":[{"title":"t","body":"b"}]})");
  EXPECT_EQ(asked.chat.messages,
            R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","tool_calls":[)" + call
                + R"({"to":1,"by":2}}}]}])");
  EXPECT_EQ(asked.chat.tools, tools);
  EXPECT_EQ(asked.chat.extra, R"({"z":1,"a":2,"documents":[{"title":"t","body":"b"}]})");
}

TEST(chat_request, an_assistant_that_only_calls_tools_has_said_nothing) {
  const std::string calls = R"("tool_calls":[{"function":{"name":"f","arguments":{}}}])";
  EXPECT_EQ(chat(R"({"messages":[{"role":"assistant","content":null,)" + calls + "}]}").chat.messages,
            R"([{"role":"assistant","content":"",)" + calls + "}]");
  EXPECT_EQ(chat(R"({"messages":[{"role":"assistant",)" + calls + "}]}").chat.messages,
            R"([{"role":"assistant",)" + calls + R"(,"content":""}])");
}

TEST(chat_request, optional_members_that_are_null_or_empty_are_absent_for_the_template) {
  for (const char* empty : {"null", "[]", "{}", "\"\""}) {
    const std::string value = empty;
    EXPECT_EQ(chat(R"({"messages":[{"role":"user","name":)" + value + R"(,"content":"a"},)"
                   + R"({"role":"assistant","content":"b","tool_calls":)" + value + R"(,"function_call":)"
                   + value + R"(,"refusal":)" + value + R"(,"audio":)" + value + R"(,"reasoning_content":)"
                   + value + R"(}],"documents":[]})")
                  .chat.messages,
              R"([{"role":"user","content":"a"},{"role":"assistant","content":"b"}])")
        << empty;
  }
  const auto call = chat(R"({"messages":[{"role":"assistant","content":null,"tool_calls":[
      {"id":"","index":0,"type":null,"function":{"name":"f","arguments":"{}","description":null}}]}],
      "tools":[],"documents":[]})");
  EXPECT_EQ(
      call.chat.messages,
      R"([{"role":"assistant","content":"","tool_calls":[{"index":0,"function":{"name":"f","arguments":{}}}]}])");
  EXPECT_EQ(call.chat.tools, "");
  EXPECT_EQ(call.chat.extra, "");
}

TEST(chat_request, arguments_that_are_no_object_become_an_empty_one_and_are_named) {
  const auto with = [](const std::string& arguments) {
    return chat(R"({"messages":[{"role":"user","content":"a"},{"role":"assistant","tool_calls":[
        {"function":{"name":"g","arguments":"{\"x\":1}"}},{"function":{"name":"f")"
                + arguments + "}}]}]}")
        .chat;
  };
  const auto opened = [&](const std::string& arguments) {
    return json::parse(with(arguments).messages)[1]["tool_calls"][1]["function"]["arguments"].dump();
  };
  for (const char* broken :
       {R"("{\"a\": ")", R"("null")", R"("[]")", R"("7")", R"("f x")", "[]", "[1]", "7", "true"}) {
    EXPECT_EQ(opened(std::string(",\"arguments\":") + broken), "{}") << broken;
    EXPECT_EQ(with(std::string(",\"arguments\":") + broken).replaced_arguments,
              std::vector<std::string>{"messages[1].tool_calls[1].function.arguments"})
        << broken;
  }
  for (const char* fine : {"", R"(,"arguments":null)", R"(,"arguments":"")", R"(,"arguments":{})"}) {
    EXPECT_EQ(opened(fine), "{}") << fine;
    EXPECT_EQ(with(fine).replaced_arguments, std::vector<std::string>{}) << fine;
  }
  EXPECT_EQ(opened(R"(,"arguments":"{\"b\":[2]}")"), R"({"b":[2]})");
}

TEST(chat_request, tool_choice_none_hides_the_tools) {
  EXPECT_EQ(chat(R"({"messages":[{"role":"user","content":"a"}],"tools":[{"type":"function"}],
                     "tool_choice":"none"})")
                .chat.tools,
            "");
}

TEST(chat_request, logprobs_are_a_switch_and_a_number) {
  const std::string message = R"({"messages":[{"role":"user","content":"a"}])";
  EXPECT_FALSE(chat(message + "}").options.logprobs);
  EXPECT_EQ(chat(message + R"(,"logprobs":true})").options.logprobs, 0);
  EXPECT_EQ(chat(message + R"(,"logprobs":true,"top_logprobs":5})").options.logprobs, 5);
}

TEST(chat_request, max_completion_tokens_wins) {
  EXPECT_EQ(chat(R"({"messages":[{"role":"user","content":"a"}],"max_tokens":3,"max_completion_tokens":4})")
                .options.max_tokens,
            4);
}

TEST(chat_request, refusals_name_the_field) {
  const std::string user = R"("messages":[{"role":"user","content":"a"}])";
  const refusal cases[] = {
      {R"({})", "messages", "required"},
      {R"({"messages":[]})", "messages", "empty"},
      {R"({"messages":"a"})", "messages", "an array"},
      {R"({"messages":["a"]})", "messages[0]", "an object"},
      {R"({"messages":[{"content":"a"}]})", "messages[0].role", "required"},
      {R"({"messages":[{"role":"user"}]})", "messages[0].content", "required"},
      {R"({"messages":[{"role":"user","content":1}]})", "messages[0].content", "a string or an array"},
      {R"({"messages":[{"role":"user","content":[1]}]})", "messages[0].content", "objects"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})", "messages[0].content.text",
       "required"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", "messages[0].content",
       "image_url", 422},
      {R"({"messages":[{"role":"user","content":"refuse me"}]})", "messages", "roles must alternate"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"id":"1"}]}]})", "messages[0].tool_calls",
       "a 'function'"},
      {R"({"messages":[{"role":"assistant","tool_calls":{"id":"1"}}]})", "messages[0].tool_calls",
       "an array"},
      {"{" + user + R"(,"top_logprobs":2})", "top_logprobs", "needs 'logprobs'"},
      {"{" + user + R"(,"logprobs":1})", "logprobs", "a boolean"},
      {"{" + user + R"(,"max_tokens":0})", "max_tokens", "between 1"},
      {"{" + user + R"(,"tools":{}})", "tools", "an array"},
      {"{" + user + R"(,"tool_choice":"required"})", "tool_choice", "'auto' and 'none'", 422},
      {"{" + user + R"(,"functions":[{"name":"f"}]})", "functions", "tools", 422},
      {"{" + user + R"(,"chat_template_kwargs":1})", "chat_template_kwargs", "an object"},
  };
  for (const refusal& one : cases)
    expect_refused(one, true);
}

TEST(chat_request, a_model_without_a_template_says_so) {
  fake_codec plain;
  plain.has_template = false;
  try {
    make_plan(chat(R"({"messages":[{"role":"user","content":"a"}]})"), plain, limits(), 1);
    FAIL();
  } catch (const api_error& e) {
    EXPECT_EQ(e.status, 422U);
    EXPECT_NE(std::string(e.what()).find("/v1/completions"), std::string::npos);
  }
}

TEST(tokenize_request, takes_a_prompt_or_a_conversation) {
  EXPECT_TRUE(parse_tokenize_request(R"({"prompt":"a"})", limits()).add_special_tokens);
  const auto chat_form = parse_tokenize_request(R"({"messages":[{"role":"user","content":"a"}]})", limits());
  EXPECT_FALSE(chat_form.add_special_tokens);
  EXPECT_TRUE(chat_form.chat);
  EXPECT_THROW(parse_tokenize_request("{}", limits()), api_error);
  EXPECT_THROW(parse_detokenize_request(R"({"tokens":[300]})", limits()), api_error);
  EXPECT_EQ(parse_detokenize_request(R"({"tokens":[1,2]})", limits()).tokens,
            (std::vector<std::int32_t>{1, 2}));
}

TEST(api_error, has_openais_form) {
  EXPECT_EQ(json::parse(error_body(invalid_request("no", "n", "invalid_value"))),
            json::parse(R"({"error":{"message":"no","type":"invalid_request_error","param":"n",
                            "code":"invalid_value"}})"));
  EXPECT_TRUE(json::parse(error_body(invalid_request("\xC3"))).at("error").at("param").is_null());
}

} // namespace troupe::openai
