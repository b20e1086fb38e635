// Large answers that do not stream.
#include <future>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

class whole_answer_test : public http_server_test {
 protected:
  whole_answer_test() {
    play = [](fake_job& job) {
      job.say_prompt();
      const std::string text(static_cast<std::size_t>(job.asked.sampling.max_tokens), 'x');
      for (std::uint32_t choice = 0; choice < job.asked.num_choices; ++choice)
        job.say_last(choice, text, finish_reason::length);
    };
  }
};

} // namespace

TEST_F(whole_answer_test, a_large_one_is_put_together_from_pieces) {
  serve();
  const raw_response answer = post(
      "/v1/completions",
      R"({"prompt":["ab","c"],"n":3,"max_tokens":700,"logprobs":5,"echo":true,"prompt_logprobs":1,"return_token_ids":true})");
  ASSERT_EQ(answer.status, 200);
  const json body = json::parse(answer.body);
  ASSERT_EQ(body["choices"].size(), 6U);
  for (std::size_t i = 0; i < 6; ++i) {
    const json& choice = body["choices"][i];
    const std::string prompt = i < 3 ? "ab" : "c";
    EXPECT_EQ(choice["index"], i);
    EXPECT_EQ(choice["text"], prompt + std::string(700, 'x'));
    const json& logprobs = choice["logprobs"];
    for (const char* name : {"tokens", "token_logprobs", "top_logprobs", "text_offset"})
      EXPECT_EQ(logprobs[name].size(), 701 + prompt.size()) << name;
    EXPECT_EQ(logprobs["text_offset"].back(), 699 + prompt.size());
    EXPECT_EQ(choice["token_ids"].size(), 700U);
    EXPECT_EQ(choice["prompt_logprobs"].size(), 1 + prompt.size());
    EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
    EXPECT_EQ(choice["finish_reason"], "length");
  }
  EXPECT_EQ(body["usage"]["completion_tokens"], 4200);
  EXPECT_TRUE(body["seed"].is_number());
}

TEST_F(whole_answer_test, a_large_chat_too) {
  serve();
  const json body = json::parse(
      post(
          "/v1/chat/completions",
          R"({"messages":[{"role":"user","content":"a"}],"n":2,"max_tokens":600,"logprobs":true,"top_logprobs":3,"prompt_logprobs":1})")
          .body);
  for (const json& choice : body["choices"]) {
    EXPECT_EQ(choice["message"]["content"], std::string(600, 'x'));
    ASSERT_EQ(choice["logprobs"]["content"].size(), 600U);
    EXPECT_EQ(choice["logprobs"]["content"][599]["top_logprobs"].size(), 3U);
    EXPECT_TRUE(choice["logprobs"]["refusal"].is_null());
  }
  EXPECT_EQ(body["prompt_logprobs"].size(), body["usage"]["prompt_tokens"].get<std::size_t>());
}

TEST_F(whole_answer_test, one_that_could_be_too_large_is_refused_before_anything_runs) {
  config.requests.max_response_bytes = 1 << 20;
  serve();
  const raw_response refused =
      post("/v1/completions", R"({"prompt":"a","n":10,"max_tokens":1000,"logprobs":20})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(error_of(refused)["code"], "response_too_large");
  EXPECT_EQ(error_of(refused)["param"], "logprobs");
  EXPECT_NE(refused.body.find("--max-response-bytes"), std::string::npos);
  EXPECT_EQ(backend->num_jobs(), 0U);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","n":10,"max_tokens":1000})").status, 200);
}

TEST_F(whole_answer_test, one_that_becomes_too_large_ends_and_frees_its_sequences) {
  config.requests.max_response_bytes = 1000;
  play = [](fake_job& job) {
    job.say(0, std::string(2000, 'x')); // exceeds the estimate: each token's text is longer than expected
    EXPECT_TRUE(job.wait_cancelled());
  };
  serve();
  const raw_response answer = post("/v1/completions", R"({"prompt":"a","max_tokens":10})");
  EXPECT_EQ(answer.status, 400);
  EXPECT_EQ(error_of(answer)["code"], "response_too_large");
}

TEST_F(whole_answer_test, what_all_of_them_gather_is_bounded) {
  config.limits.max_gathered_bytes = 1500;
  std::promise<void> end;
  play = [go = end.get_future().share()](fake_job& job) {
    job.say(0, std::string(1000, 'x'));
    if (job.asked.prompt.back() == 'a')
      go.wait();
    job.finish(0, finish_reason::length);
  };
  serve();
  raw_client first{port};
  first.request("POST", "/v1/completions", R"({"prompt":"a","max_tokens":1000})");
  backend->job(0);
  while (metric("troupe_generation_tokens_total") < 1000) {
  }
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"b","max_tokens":1000})").status, 429);
  end.set_value();
  EXPECT_EQ(first.read().status, 200);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"b","max_tokens":1000})").status, 200);
}

} // namespace troupe::http_test
