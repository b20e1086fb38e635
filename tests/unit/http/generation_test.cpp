// Completions and chats over HTTP: shapes, numbering, streams, failures of the cluster.
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

class generation_test : public http_server_test {};

std::vector<json> chunks_of(const raw_response& response) {
  std::vector<json> chunks;
  for (const std::string& event : events_of(response.body))
    if (event != "[DONE]")
      chunks.push_back(json::parse(event));
  return chunks;
}

json usage(int prompt, int completion, int cached = 0) {
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}}};
}

/// The text of one choice of a streamed completion.
std::string text_of(const std::vector<json>& chunks, int index) {
  std::string text;
  for (const json& chunk : chunks)
    for (const json& choice : chunk["choices"])
      if (choice["index"] == index)
        text += choice.contains("text") ? choice["text"].get<std::string>()
                                        : choice["delta"].value("content", std::string{});
  return text;
}

} // namespace

TEST_F(generation_test, completion_has_openais_shape) {
  serve();
  const raw_response response = post("/v1/completions", R"({"model":"tiny","prompt":"ab","seed":7})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(response.headers.at("content-type"), "application/json");
  EXPECT_EQ(response.headers.at("x-troupe-seed"), "7");
  json body = json::parse(response.body);
  EXPECT_EQ(body["id"], "cmpl-" + response.headers.at("x-request-id"));
  EXPECT_TRUE(body["created"].is_number_integer());
  body.erase("id");
  body.erase("created");
  EXPECT_EQ(
      body,
      json::parse(R"({"object":"text_completion","model":"tiny","system_fingerprint":"fp_1.2.3-0123","seed":7,
      "choices":[{"index":0,"text":"hello wörld","logprobs":null,"finish_reason":"stop","stop_reason":null,
      "token_ids":null,"prompt_logprobs":null,"prompt_token_ids":null}],
      "usage":{"prompt_tokens":3,"completion_tokens":13,"total_tokens":16,
      "prompt_tokens_details":{"cached_tokens":0}}})"));
}

TEST_F(generation_test, known_tokens_of_all_prompts_are_in_the_usage) {
  play = [](fake_job& job) {
    job.place();
    job.listener->on_cached_tokens(static_cast<std::uint32_t>(job.asked.prompt.size() - 1));
    fake_backend::say_hello(job);
  };
  serve();
  const raw_response response =
      post("/v1/completions", R"({"prompt":["a","bcd"],"max_tokens":1,"n":2,"cache_salt":"mine"})");
  ASSERT_EQ(response.status, 200) << response.body;
  EXPECT_EQ(json::parse(response.body)["usage"], usage(6, 4, 4));
  EXPECT_EQ(backend->job(0)->asked.cache_salt, "mine");
}

TEST_F(generation_test, a_cache_salt_is_a_short_text) {
  serve();
  for (const std::string& salt :
       {std::string{R"("")"}, '"' + std::string(1025, 'a') + '"', std::string{"7"}}) {
    const raw_response response = post("/v1/completions", R"({"prompt":"a","cache_salt":)" + salt + "}");
    EXPECT_EQ(response.status, 400) << response.body;
    EXPECT_EQ(json::parse(response.body)["error"]["param"], "cache_salt");
  }
}

TEST_F(generation_test, chat_has_openais_shape) {
  serve();
  const raw_response response =
      post("/v1/chat/completions",
           R"({"model":"tiny","messages":[{"role":"user","content":"hi"}],"max_tokens":5,"seed":1})");
  ASSERT_EQ(response.status, 200) << response.body;
  const json body = json::parse(response.body);
  EXPECT_EQ(body["id"], "chatcmpl-" + response.headers.at("x-request-id"));
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["choices"], json::parse(R"([{"index":0,"message":{"role":"assistant","content":"hello",
      "refusal":null},"logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":null}])"));
  EXPECT_EQ(body["usage"]["completion_tokens"], 5);
}

TEST_F(generation_test, replaced_arguments_of_a_call_are_told_to_the_operator) {
  std::mutex mutex;
  std::vector<std::string> lines;
  config.warn = [&](const std::string& line) {
    const std::scoped_lock lock(mutex);
    lines.push_back(line);
  };
  serve();
  const std::string broken = R"({"function":{"name":"f","arguments":"{\"a\": "}})";
  const auto ask_with = [&](const std::string& calls, const std::string& id) {
    return post("/v1/chat/completions",
                R"({"messages":[{"role":"user","content":"hi"},{"role":"assistant","tool_calls":[)" + calls
                    + R"(]},{"role":"user","content":"go on"}]})",
                "x-request-id: " + id + "\r\n")
        .status;
  };
  EXPECT_EQ(ask_with(broken, "one"), 200);
  EXPECT_EQ(ask_with(R"({"function":{"name":"f","arguments":"{}"}})", "two"), 200);
  EXPECT_EQ(ask_with(broken + "," + broken, "three"), 200);
  const std::scoped_lock lock(mutex);
  const std::string told =
      "messages[1].tool_calls[0].function.arguments is not a JSON object, the chat template gets {}";
  EXPECT_EQ(lines,
            (std::vector<std::string>{"request one: " + told,
                                      "request three: " + told + " (2 such arguments in this request)"}));
}

TEST_F(generation_test, a_seed_is_drawn_and_reported) {
  serve();
  std::set<std::int64_t> seeds;
  for (int i = 0; i < 3; ++i) {
    const json body = json::parse(post("/v1/completions", R"({"prompt":"a"})").body);
    seeds.insert(body["seed"].get<std::int64_t>());
    EXPECT_EQ(backend->job(static_cast<std::size_t>(i))->asked.sampling.seed,
              body["seed"].get<std::uint64_t>());
  }
  EXPECT_EQ(seeds.size(), 3U);
}

TEST_F(generation_test, a_choices_text_continues_its_prompt) {
  std::vector<std::vector<std::int32_t>> continued;
  codec->on_stream = [&](std::span<const std::int32_t> before) {
    continued.emplace_back(before.begin(), before.end());
  };
  serve();
  ASSERT_EQ(post("/v1/completions", R"({"prompt":["a","bc"],"n":2})").status, 200);
  EXPECT_EQ(continued, (std::vector<std::vector<std::int32_t>>{
                           {bos, 'a'}, {bos, 'a'}, {bos, 'b', 'c'}, {bos, 'b', 'c'}}));
}

TEST_F(generation_test, several_prompts_and_choices_are_numbered_as_openai_does) {
  play = [](fake_job& job) {
    for (std::uint32_t choice = job.asked.num_choices; choice-- > 0;) {
      job.say(choice, std::string(1, static_cast<char>(job.asked.prompt.back())) + std::to_string(choice));
      job.finish(choice, finish_reason::length);
    }
  };
  serve();
  const json body = json::parse(post("/v1/completions", R"({"prompt":["a","b"],"n":2})").body);
  ASSERT_EQ(body["choices"].size(), 4U);
  const char* expected[] = {"a0", "a1", "b0", "b1"};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(body["choices"][i]["index"], i);
    EXPECT_EQ(body["choices"][i]["text"], expected[i]);
  }
  EXPECT_EQ(body["usage"], usage(4, 8));
  const auto chunks = chunks_of(post("/v1/completions", R"({"prompt":["a","b"],"n":2,"stream":true})"));
  for (int i = 0; i < 4; ++i)
    EXPECT_EQ(text_of(chunks, i), expected[i]);
}

TEST_F(generation_test, a_streamed_completion_ends_with_done) {
  serve();
  const raw_response response =
      post("/v1/completions",
           R"({"prompt":"a","stream":true,"max_tokens":3,"stream_options":{"include_usage":true}})");
  EXPECT_EQ(response.headers.at("content-type"), "text/event-stream; charset=utf-8");
  ASSERT_TRUE(response.complete);
  EXPECT_EQ(events_of(response.body).back(), "[DONE]");
  const auto chunks = chunks_of(response);
  ASSERT_EQ(chunks.size(), 4U); // three tokens, the usage
  EXPECT_EQ(text_of(chunks, 0), "hel");
  for (const json& chunk : chunks) {
    EXPECT_EQ(chunk["object"], "text_completion");
    EXPECT_EQ(chunk["id"], "cmpl-" + response.headers.at("x-request-id"));
  }
  EXPECT_TRUE(chunks[0]["usage"].is_null());
  EXPECT_TRUE(chunks[0]["choices"][0]["finish_reason"].is_null());
  EXPECT_EQ(chunks[2]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(chunks[3]["choices"], json::array());
  EXPECT_EQ(chunks[3]["usage"], usage(2, 3));
}

TEST_F(generation_test, a_streamed_chat_opens_with_the_role) {
  serve();
  const auto chunks = chunks_of(post(
      "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"a"}],"stream":true,"n":2,"logprobs":true,"top_logprobs":1})"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(text_of(chunks, i), "hello wörld");
    std::vector<json> own;
    for (const json& chunk : chunks)
      if (chunk["choices"][0]["index"] == i)
        own.push_back(chunk["choices"][0]);
    EXPECT_EQ(own.front()["delta"], json::parse(R"({"role":"assistant","content":""})"));
    EXPECT_EQ(own[1]["delta"], json::parse(R"({"content":"h"})"));
    EXPECT_EQ(own[1]["logprobs"]["content"][0]["token"], "h");
    EXPECT_EQ(own[1]["logprobs"]["content"][0]["top_logprobs"].size(), 1U);
    EXPECT_EQ(own.back()["delta"], json::parse(R"({"content":""})")); // the end token
    EXPECT_EQ(own.back()["finish_reason"], "stop");
  }
  EXPECT_EQ(chunks[0]["object"], "chat.completion.chunk");
}

TEST_F(generation_test, half_characters_are_never_sent) {
  serve();
  const raw_response response = post("/v1/completions", R"({"prompt":"a","stream":true,"max_tokens":8})");
  // The eighth token is the first byte of "ö".
  EXPECT_EQ(text_of(chunks_of(response), 0), "hello w\xEF\xBF\xBD");
}

TEST_F(generation_test, a_stop_string_across_tokens_stops_the_sequence) {
  play = [](fake_job& job) {
    job.say(0, "one E");
    job.say(0, "N");
    job.say(0, "D two");
    EXPECT_TRUE(job.wait_stopped(0));
    job.finish(0, finish_reason::stop);
  };
  serve();
  const json body = json::parse(post("/v1/completions", R"({"prompt":"a","stop":["END","zzz"]})").body);
  EXPECT_EQ(body["choices"][0]["text"], "one ");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "stop");
  EXPECT_EQ(body["choices"][0]["stop_reason"], "END");
  EXPECT_EQ(body["usage"]["completion_tokens"], 7);
  const auto chunks = chunks_of(post(
      "/v1/completions", R"({"prompt":"a","stop":"END","stream":true,"include_stop_str_in_output":true})"));
  EXPECT_EQ(text_of(chunks, 0), "one END");
}

TEST_F(generation_test, echo_with_logprobs_covers_prompt_and_completion) {
  serve();
  const json body =
      json::parse(post("/v1/completions", R"({"prompt":"ab","echo":true,"logprobs":1,"max_tokens":2})").body);
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["text"], "abhe");
  EXPECT_EQ(choice["logprobs"]["tokens"], json::parse(R"(["<bos>","a","b","h","e"])"));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"], json::parse("[null,-0.5,-0.5,-0.5,-0.5]"));
  EXPECT_EQ(choice["logprobs"]["text_offset"], json::parse("[0,0,1,2,3]"));
  EXPECT_TRUE(choice["logprobs"]["top_logprobs"][0].is_null());
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][4], json::parse(R"({"e":-0.5})"));
}

TEST_F(generation_test, echo_without_new_tokens_scores_the_prompt_alone) {
  serve();
  const json body = json::parse(
      post("/v1/completions", R"({"prompt":"abc","echo":true,"logprobs":0,"max_tokens":0})").body);
  EXPECT_EQ(body["choices"][0]["text"], "abc");
  EXPECT_EQ(body["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(body["choices"][0]["logprobs"]["tokens"].size(), 4U);
  EXPECT_EQ(body["usage"], usage(4, 0));
  const auto chunks = chunks_of(
      post("/v1/completions", R"({"prompt":"abc","echo":true,"logprobs":0,"max_tokens":0,"stream":true})"));
  EXPECT_EQ(text_of(chunks, 0), "abc");
  EXPECT_EQ(chunks[0]["choices"][0]["logprobs"]["tokens"].size(), 4U);
}

TEST_F(generation_test, vllms_extras_are_answered) {
  serve();
  const json body = json::parse(
      post("/v1/completions", R"({"prompt":"ab","max_tokens":1,"return_token_ids":true,"prompt_logprobs":1})")
          .body);
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["token_ids"], json::parse("[104]"));
  EXPECT_EQ(choice["prompt_token_ids"], json::parse("[257,97,98]"));
  ASSERT_EQ(choice["prompt_logprobs"].size(), 3U);
  EXPECT_TRUE(choice["prompt_logprobs"][0].is_null());
  EXPECT_EQ(choice["prompt_logprobs"][1]["97"]["decoded_token"], "a");
  const json chat = json::parse(post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],
      "max_tokens":1,"return_token_ids":true,"prompt_logprobs":0})")
                                    .body);
  EXPECT_EQ(chat["choices"][0]["token_ids"], json::parse("[104]"));
  EXPECT_EQ(chat["prompt_token_ids"].size(), chat["usage"]["prompt_tokens"].get<std::size_t>());
  EXPECT_EQ(chat["prompt_logprobs"].size(), chat["prompt_token_ids"].size());
}

TEST_F(generation_test, what_the_cluster_refuses_has_its_status) {
  struct {
    ec code;
    int status;
    const char* retry_after;
  } const cases[] = {{ec::overloaded, 429, "1"},        {ec::not_ready, 503, "2"},
                     {ec::deadline_exceeded, 503, "5"}, {ec::context_exceeded, 400, nullptr},
                     {ec::engine_failed, 500, nullptr}, {ec::shutting_down, 503, "5"},
                     {ec::model_broken, 500, nullptr},  {ec::none, 500, nullptr}};

  ec code = ec::none;
  play = [&code](fake_job& job) { job.fail(code, "this is why"); };
  config.limits.refusal_holds = std::chrono::milliseconds{0};
  serve();
  for (const auto& one : cases) {
    code = one.code;
    for (const char* body : {R"({"prompt":"a"})", R"({"prompt":"a","stream":true})"}) {
      const raw_response response = post("/v1/completions", body);
      EXPECT_EQ(response.status, one.status);
      EXPECT_EQ(error_of(response)["message"], "this is why");
      if (one.retry_after != nullptr)
        EXPECT_EQ(response.headers.at("retry-after"), one.retry_after);
      else
        EXPECT_EQ(response.headers.count("retry-after"), 0U);
    }
  }
  EXPECT_EQ(metric("troupe_admission_rejections_total{reason=\"overloaded\"}"), 2);
}

TEST_F(generation_test, a_failure_within_a_stream_is_an_event) {
  std::promise<void> begun;
  play = [go = begun.get_future().share()](fake_job& job) {
    job.say(0, "o");
    go.wait();
    job.fail(ec::engine_failed, "out of memory");
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", R"({"prompt":"a","stream":true})");
  const bool chunk_came = client.take(1); // head and first chunk are sent together
  begun.set_value();
  ASSERT_TRUE(chunk_came);
  const raw_response response = client.read();
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.complete);
  const auto events = events_of(response.body);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(json::parse(events[0])["choices"][0]["text"], "o");
  EXPECT_EQ(json::parse(events[1])["error"]["message"], "out of memory");
  EXPECT_EQ(events[2], "[DONE]");
}

TEST_F(generation_test, when_one_prompt_fails_the_others_are_cancelled) {
  play = [](fake_job& job) {
    if (job.asked.prompt.back() == 'b')
      job.fail(ec::overloaded, "full");
    else
      EXPECT_TRUE(job.wait_cancelled());
  };
  serve();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":["a","b"]})").status, 429);
}

TEST_F(generation_test, only_so_many_prompts_of_a_request_are_open_at_once) {
  config.limits.max_first_prompts = 2;
  config.limits.max_open_prompts = 3;
  std::promise<void> release_first;
  std::promise<void> release;
  play = [first = release_first.get_future().share(), go = release.get_future().share()](fake_job& job) {
    const auto letter = static_cast<char>(job.asked.prompt.back());
    EXPECT_EQ(job.asked.follows, letter > 'b');
    if (letter == 'a') {
      first.wait();
      job.say(0, "a");
    }
    go.wait();
    if (letter != 'a')
      job.say(0, std::string(1, letter));
    job.finish(0, finish_reason::length);
  };
  serve();
  std::thread client{[this] {
    const json answer = json::parse(post("/v1/completions", R"({"prompt":["a","b","c","d","e"]})").body);
    std::string texts;
    for (const json& choice : answer["choices"])
      texts += choice["text"].get<std::string>();
    EXPECT_EQ(texts, "abcde");
  }};
  backend->job(1);
  get("/health"); // one thread does all: it has finished starting prompts
  EXPECT_EQ(backend->num_jobs(), 2U);
  release_first.set_value();
  backend->job(2);
  get("/health");
  EXPECT_EQ(backend->num_jobs(), 3U);
  release.set_value();
  client.join();
  EXPECT_EQ(backend->num_jobs(), 5U);
}

TEST_F(generation_test, metrics_tell_the_life_of_requests) {
  serve();
  post("/v1/completions", R"({"prompt":"ab","max_tokens":4,"n":2})");
  post("/v1/completions", R"({"prompt":"ab"})");
  EXPECT_EQ(metric("troupe_prompt_tokens_total"), 6);
  EXPECT_EQ(metric("troupe_generation_tokens_total"), 21); // with the end token, as in the usage
  EXPECT_EQ(metric("troupe_request_success_total{finished_reason=\"length\"}"), 2);
  EXPECT_EQ(metric("troupe_request_success_total{finished_reason=\"stop\"}"), 1);
  EXPECT_EQ(metric("troupe_time_to_first_token_seconds_count"), 3);
  EXPECT_EQ(metric("troupe_inter_token_latency_seconds_count"), 18);
  EXPECT_EQ(metric("troupe_e2e_request_latency_seconds_count"), 3);
  EXPECT_EQ(metric("troupe_request_generation_tokens_sum"), 21); // with the end token
  EXPECT_EQ(metric("troupe_request_time_per_output_token_seconds_count"), 3);
  EXPECT_EQ(metric("troupe_http_requests_total{handler=\"/v1/completions\",status=\"200\"}"), 2);
}

TEST_F(generation_test, a_request_that_is_never_answered_ends_in_time) {
  config.limits.request = std::chrono::milliseconds{100};
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})").status, 504);
}

TEST_F(generation_test, a_chat_without_max_tokens_gets_what_the_workers_hold) {
  serve();
  const char* chat = R"({"messages":[{"role":"user","content":"hi"}]})";
  EXPECT_EQ(post("/v1/chat/completions", chat).status, 200);
  backend->longest_context = 100;
  EXPECT_EQ(post("/v1/chat/completions", chat).status, 200);
  const auto prompt = static_cast<std::int32_t>(backend->job(0)->asked.prompt.size());
  EXPECT_EQ(backend->job(0)->asked.sampling.max_tokens, 4096 - prompt);
  EXPECT_TRUE(backend->job(0)->asked.open_ended) << "no worker has said yet what it holds";
  EXPECT_EQ(backend->job(1)->asked.sampling.max_tokens, 100 - prompt);
  EXPECT_TRUE(backend->job(1)->asked.open_ended);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a","max_tokens":5})").status, 200);
  EXPECT_FALSE(backend->job(2)->asked.open_ended);
  const raw_response beyond = post("/v1/completions", R"({"prompt":"a","max_tokens":100})");
  EXPECT_EQ(beyond.status, 400);
  EXPECT_NE(beyond.body.find("maximum context length is 100 tokens"), std::string::npos) << beyond.body;
}

TEST_F(generation_test, hundreds_at_once_wait_for_the_tokenizer) {
  const std::string body = R"({"prompt":"a","max_tokens":1})";
  // Room for exactly this many: one more is refused while all of these wait, and only then.
  config.limits.max_background_bytes = 400 * (body.size() + 1024);
  std::mutex gate;
  std::unique_lock closed{gate}; // until all have come
  std::atomic<int> begun{0};
  codec->before_encode = [&](std::string_view) {
    ++begun;
    const std::lock_guard pass{gate};
  };
  play = [](fake_job& job) { job.finish(0, finish_reason::length); };
  serve();
  std::vector<std::unique_ptr<raw_client>> clients;
  for (int i = 0; i < 401; ++i) {
    clients.push_back(std::make_unique<raw_client>(port));
    clients.back()->send("POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
                         "Content-Length: "
                         + std::to_string(body.size()) + "\r\n\r\n" + body);
  }
  // Meanwhile other requests are answered on the same thread.
  const std::string refusals = "troupe_admission_rejections_total{reason=\"overloaded\"}";
  for (int i = 0; i < 10000 && metric(refusals) < 1; ++i)
    continue;
  EXPECT_EQ(metric(refusals), 1);
  EXPECT_LE(begun, 1) << "there is one thread for texts";
  EXPECT_EQ(backend->num_jobs(), 0U);
  closed.unlock();
  std::map<int, int> answers; // by status
  for (const auto& client : clients)
    ++answers[client->read().status];
  EXPECT_EQ(answers, (std::map<int, int>{{200, 400}, {429, 1}}));
  EXPECT_EQ(begun, 400);
}

TEST_F(generation_test, a_hundred_at_once_are_answered_each_with_its_own) {
  config.threads = 2;
  play = [](fake_job& job) {
    job.say(0, std::to_string(job.asked.prompt[0]));
    job.finish(0, finish_reason::length);
  };
  serve();
  std::vector<std::thread> clients;
  std::atomic<int> right{0};
  for (int i = 0; i < 100; ++i)
    clients.emplace_back([this, i, &right] {
      const bool stream = i % 2 == 0;
      const raw_response response =
          post("/v1/completions",
               "{\"prompt\":[" + std::to_string(i) + "],\"stream\":" + (stream ? "true}" : "false}"));
      const std::string text = stream ? text_of(chunks_of(response), 0)
                                      : json::parse(response.body)["choices"][0]["text"].get<std::string>();
      right += text == std::to_string(i) ? 1 : 0;
    });
  for (std::thread& client : clients)
    client.join();
  EXPECT_EQ(right, 100);
}

} // namespace troupe::http_test
