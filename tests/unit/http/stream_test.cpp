// The chunks of a stream, as clients count them: one per token, the last one with the end.
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

class stream_test : public http_server_test {
 protected:
  std::vector<json> chunks(const char* path, const std::string& body) {
    const raw_response response = post(path, body);
    EXPECT_EQ(response.status, 200) << response.body;
    std::vector<json> result;
    for (const std::string& event : events_of(response.body))
      if (event != "[DONE]")
        result.push_back(json::parse(event));
    return result;
  }

  std::vector<json> completion(const std::string& more) {
    return chunks("/v1/completions", R"({"stream":true,)" + more + "}");
  }

  std::vector<json> chat(const std::string& more) {
    return chunks("/v1/chat/completions",
                  R"({"stream":true,"messages":[{"role":"user","content":"a"}],)" + more + "}");
  }
};

/// Tokens of the chat's prompt: `[{"role":"user","content":"a"}]A:`, one per byte.
constexpr int num_chat_tokens = 33;

constexpr const char* with_usage = R"("stream_options":{"include_usage":true})";

} // namespace

TEST_F(stream_test, a_completion_has_as_many_chunks_as_tokens) {
  serve();
  // "hello wörld" is 12 bytes, each a token, and the end token is the 13th: its chunk has no text.
  const auto ended = completion(R"("prompt":"a","max_tokens":16,)" + std::string(with_usage));
  ASSERT_EQ(ended.size(), 14U);
  EXPECT_EQ(ended[13]["usage"]["completion_tokens"], 13);
  EXPECT_EQ(ended[12]["choices"][0]["text"], "");
  EXPECT_EQ(ended[12]["choices"][0]["finish_reason"], "stop");
  EXPECT_TRUE(ended[11]["choices"][0]["finish_reason"].is_null());
  const auto cut = completion(R"("prompt":"a","max_tokens":3,)" + std::string(with_usage));
  ASSERT_EQ(cut.size(), 4U);
  EXPECT_EQ(cut[2]["choices"][0]["text"], "l");
  EXPECT_EQ(cut[2]["choices"][0]["finish_reason"], "length");
}

TEST_F(stream_test, tokens_whose_text_is_held_back_have_chunks_too) {
  play = [](fake_job& job) {
    job.say(0, "one E");
    job.say(0, "ND two");
    EXPECT_TRUE(job.wait_stopped(0));
    job.finish(0, finish_reason::stop);
  };
  serve();
  const auto got = completion(R"("prompt":"a","stop":"END","logprobs":0,"return_token_ids":true)");
  ASSERT_EQ(got.size(), 7U);
  for (const json& chunk : got) {
    EXPECT_EQ(chunk["choices"][0]["token_ids"].size(), 1U);
    EXPECT_EQ(chunk["choices"][0]["logprobs"]["tokens"].size(), 1U);
  }
  EXPECT_EQ(got[4]["choices"][0]["text"], "");
  EXPECT_EQ(got[6]["choices"][0]["logprobs"]["text_offset"], json::parse("[6]"));
  EXPECT_EQ(got[6]["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(got[6]["choices"][0]["stop_reason"], "END");
}

TEST_F(stream_test, the_last_tokens_of_one_update_have_a_chunk_each) {
  play = [](fake_job& job) { job.say_last(0, "abc", finish_reason::length); };
  serve();
  const auto got = completion(R"("prompt":"x")");
  ASSERT_EQ(got.size(), 3U);
  EXPECT_TRUE(got[1]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(got[2]["choices"][0]["text"], "c");
  EXPECT_EQ(got[2]["choices"][0]["finish_reason"], "length");
}

TEST_F(stream_test, a_choice_that_ends_without_a_token_still_says_how) {
  play = [](fake_job& job) {
    job.say(0, "a");
    job.finish(0, finish_reason::length);
  };
  serve();
  const auto got = completion(R"("prompt":"x")");
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1]["choices"][0]["text"], "");
  EXPECT_EQ(got[1]["choices"][0]["finish_reason"], "length");
}

TEST_F(stream_test, the_first_chunk_of_a_completion_has_the_echo_and_its_token) {
  serve();
  const auto got =
      completion(R"("prompt":"ab","echo":true,"logprobs":0,"max_tokens":2,"return_token_ids":true)");
  ASSERT_EQ(got.size(), 2U);
  const json& first = got[0]["choices"][0];
  EXPECT_EQ(first["text"], "abh");
  EXPECT_EQ(first["logprobs"]["tokens"], json::parse(R"(["<bos>","a","b","h"])"));
  EXPECT_EQ(first["logprobs"]["text_offset"], json::parse("[0,0,1,2]"));
  EXPECT_EQ(first["token_ids"], json::parse("[104]"));
  EXPECT_EQ(first["prompt_token_ids"], json::parse("[257,97,98]"));
  EXPECT_EQ(got[1]["choices"][0]["text"], "e");
  EXPECT_TRUE(got[1]["choices"][0]["prompt_token_ids"].is_null());
  const auto alone = completion(R"("prompt":"ab","echo":true,"max_tokens":0)");
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0]["choices"][0]["text"], "ab");
  EXPECT_EQ(alone[0]["choices"][0]["finish_reason"], "length");
}

TEST_F(stream_test, a_chat_has_its_role_and_then_a_chunk_for_each_token) {
  serve();
  const auto got = chat(R"("max_tokens":2,"logprobs":true,"return_token_ids":true)");
  ASSERT_EQ(got.size(), 3U);
  EXPECT_EQ(got[0]["choices"], json::parse(R"([{"index":0,"delta":{"role":"assistant","content":""},
      "logprobs":null,"finish_reason":null}])"));
  EXPECT_EQ(got[0]["prompt_token_ids"].size(), static_cast<std::size_t>(num_chat_tokens));
  EXPECT_EQ(got[1]["choices"][0]["delta"], json::parse(R"({"content":"h"})"));
  EXPECT_EQ(got[2]["choices"], json::parse(R"([{"index":0,"delta":{"content":"e"},"logprobs":{"content":[
      {"token":"e","logprob":-0.5,"bytes":[101],"top_logprobs":[]}],"refusal":null},
      "finish_reason":"length","stop_reason":null,"token_ids":[101]}])"));
}

TEST_F(stream_test, the_end_token_has_its_logprob_in_streams_and_answers_alike) {
  play = [](fake_job& job) {
    job.say(0, "a");
    job.finish(0, finish_reason::stop, eos);
  };
  serve();
  const std::string asked = R"("prompt":"x","logprobs":1,"return_token_ids":true)";
  const json whole = json::parse(post("/v1/completions", "{" + asked + "}").body)["choices"][0];
  EXPECT_EQ(whole["text"], "a");
  EXPECT_EQ(whole["token_ids"], json::parse("[97,256]"));
  EXPECT_EQ(whole["logprobs"], json::parse(R"({"text_offset":[0,1],"token_logprobs":[-0.5,-0.5],
      "tokens":["a","<eos>"],"top_logprobs":[{"a":-0.5},{"<eos>":-0.5}]})"));
  const auto got = completion(asked);
  ASSERT_EQ(got.size(), 2U);
  EXPECT_EQ(got[1]["choices"][0]["logprobs"], json::parse(R"({"text_offset":[1],"token_logprobs":[-0.5],
      "tokens":["<eos>"],"top_logprobs":[{"<eos>":-0.5}]})"));
  const auto chats = chat(R"("logprobs":true)");
  ASSERT_EQ(chats.size(), 3U);
  EXPECT_EQ(chats[2]["choices"][0]["logprobs"]["content"][0]["token"], "<eos>");
  EXPECT_EQ(chats[2]["choices"][0]["finish_reason"], "stop");
}

TEST_F(stream_test, usage_in_every_chunk_is_of_its_choice_and_needs_include_usage) {
  serve();
  const auto counted = [](const json& usage, int prompt, int completion) {
    return usage
           == json({{"prompt_tokens", prompt},
                    {"completion_tokens", completion},
                    {"total_tokens", prompt + completion}});
  };
  const std::string both = R"("stream_options":{"include_usage":true,"continuous_usage_stats":true})";
  const auto got = completion(R"("prompt":["a","bc"],"max_tokens":2,)" + both);
  ASSERT_EQ(got.size(), 5U);
  std::map<int, int> seen;
  for (std::size_t i = 0; i < 4; ++i) {
    const int index = got[i]["choices"][0]["index"];
    EXPECT_TRUE(counted(got[i]["usage"], index == 0 ? 2 : 3, ++seen[index])) << got[i];
  }
  json sum = got[4]["usage"];
  EXPECT_EQ(sum["prompt_tokens_details"], json({{"cached_tokens", 0}}));
  sum.erase("prompt_tokens_details");
  EXPECT_TRUE(counted(sum, 5, 4)) << got[4];
  const auto chats = chat(R"("max_tokens":1,)" + both);
  ASSERT_EQ(chats.size(), 3U);
  EXPECT_TRUE(counted(chats[0]["usage"], num_chat_tokens, 0)) << chats[0];
  EXPECT_TRUE(counted(chats[1]["usage"], num_chat_tokens, 1)) << chats[1];
  for (const json& chunk :
       completion(R"("prompt":"a","max_tokens":2,"stream_options":{"continuous_usage_stats":true})"))
    EXPECT_FALSE(chunk.contains("usage")) << chunk;
}

TEST_F(stream_test, what_was_not_asked_for_is_null) {
  serve();
  const json whole = json::parse(post("/v1/completions", R"({"prompt":"a","max_tokens":1})").body);
  for (const char* name : {"token_ids", "prompt_token_ids", "prompt_logprobs"})
    EXPECT_TRUE(whole["choices"][0].at(name).is_null()) << name;
  const json chatted = json::parse(
      post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1})").body);
  EXPECT_TRUE(chatted["choices"][0].at("token_ids").is_null());
  EXPECT_TRUE(chatted.at("prompt_token_ids").is_null());
  EXPECT_TRUE(chatted.at("prompt_logprobs").is_null());
  const auto chunk = completion(R"("prompt":"a","max_tokens":1)").at(0)["choices"][0];
  EXPECT_TRUE(chunk.at("token_ids").is_null());
  EXPECT_TRUE(chunk.at("prompt_token_ids").is_null());
  const auto of_chat = chat(R"("max_tokens":1)");
  EXPECT_TRUE(of_chat.at(0).at("prompt_token_ids").is_null());
  EXPECT_TRUE(of_chat.at(1)["choices"][0].at("token_ids").is_null());
}

} // namespace troupe::http_test
