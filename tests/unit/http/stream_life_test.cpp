// A stream before its first token, and between tokens with long pauses.
#include <future>

#include "services/gateway/openai/response.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using namespace std::chrono_literals;

constexpr const char* streamed = R"({"prompt":"a","stream":true})";

class stream_life_test : public http_server_test {
 protected:
  std::promise<void> go_on;

  /// The client's stream up to and including `end`.
  static std::string read_until(raw_client& client, const std::string& end) { return client.read_until(end); }
};

} // namespace

TEST_F(stream_life_test, the_head_comes_once_the_cluster_has_taken_it) {
  config.limits.stream_head = 1h;
  config.limits.sse_ping = 1h;
  play = [go = go_on.get_future().share()](fake_job& job) {
    job.place();
    go.wait();
    job.say_last(0, "x", finish_reason::length);
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", R"({"prompt":"a","stream":true,"seed":7})");
  const std::string begin = read_until(client, "\r\n\r\n");
  EXPECT_TRUE(begin.starts_with("HTTP/1.1 200 OK\r\n"));
  EXPECT_NE(begin.find("x-troupe-seed: 7\r\n"), std::string::npos);
  go_on.set_value();
  const std::string rest = read_until(client, "data: [DONE]\n\n");
  EXPECT_NE(rest.find("\"text\":\"x\""), std::string::npos);
  EXPECT_EQ(rest.substr(rest.find("\r\n") + 2, 6), "data: ")
      << "behind the first chunk's size, and no comment";
}

TEST_F(stream_life_test, all_prompts_must_have_been_taken) {
  config.limits.stream_head = 1h;
  config.limits.sse_ping = 1h;
  play = [](fake_job& job) {
    if (job.asked.prompt.back() == 'a')
      job.place();
    else
      job.fail(ec::overloaded, "full");
  };
  serve();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":["a","b"],"stream":true})").status, 429);
}

TEST_F(stream_life_test, a_long_wait_for_a_place_shows_that_it_lives) {
  config.limits.stream_head = 1ms;
  config.limits.sse_ping = 1ms;
  play = [go = go_on.get_future().share()](fake_job& job) {
    go.wait();
    job.fail(ec::overloaded, "full");
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", R"({"prompt":"a","stream":true,"logprobs":1})");
  const std::string begin = read_until(client, ": ping\n\n");
  EXPECT_NE(begin.find("\"token_logprobs\":[]"), std::string::npos) << begin;
  EXPECT_LT(begin.find("data: {"), begin.find("\n:")) << "an event comes before the first comment: " << begin;
  EXPECT_NE(begin.find("\"text\":\"\""), std::string::npos);
  for (int i = 0; i < 2; ++i)
    EXPECT_TRUE(read_until(client, ": ping\n\n").ends_with(": ping\n\n"));
  go_on.set_value();
  // It is too late for a status.
  const std::string rest = read_until(client, "data: [DONE]\n\n");
  EXPECT_NE(rest.find("\"message\":\"full\""), std::string::npos) << rest;
}

TEST_F(stream_life_test, pings_go_on_between_tokens) {
  config.limits.stream_head = 1h;
  config.limits.sse_ping = 1ms;
  play = [go = go_on.get_future().share()](fake_job& job) {
    job.say(0, "x");
    go.wait();
    job.say_last(0, "y", finish_reason::length);
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", streamed);
  read_until(client, "\"text\":\"x\"");
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(read_until(client, ": ping\n\n").ends_with(": ping\n\n"));
  go_on.set_value();
  EXPECT_NE(read_until(client, "data: [DONE]\n\n").find("\"text\":\"y\""), std::string::npos);
}

TEST_F(stream_life_test, a_silent_chat_is_opened_by_its_role_which_comes_once) {
  config.limits.stream_head = 1ms;
  config.limits.sse_ping = 1ms;
  play = [go = go_on.get_future().share()](fake_job& job) {
    go.wait();
    job.say_last(0, "x", finish_reason::length);
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/chat/completions",
                 R"({"messages":[{"role":"user","content":"a"}],"stream":true})");
  std::string text = read_until(client, ": ping\n\n");
  go_on.set_value();
  text += read_until(client, "data: [DONE]\n\n");
  const std::size_t role = text.find("\"role\":\"assistant\"");
  EXPECT_LT(role, text.find("\n:"));
  EXPECT_EQ(text.find("\"role\"", role + 1), std::string::npos) << text;
  EXPECT_NE(text.find("\"content\":\"x\""), std::string::npos) << text;
}

TEST_F(stream_life_test, without_an_interval_silence_stays_silent) {
  config.limits.sse_ping = 0ms;
  config.limits.stream_head = 1ms;
  play = [go = go_on.get_future().share()](fake_job& job) {
    job.place();
    go.wait();
    job.say_last(0, "x", finish_reason::length);
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", streamed);
  read_until(client, "\r\n\r\n");
  go_on.set_value();
  const std::string rest = read_until(client, "data: [DONE]\n\n");
  EXPECT_EQ(rest.find("\n:"), std::string::npos) << rest;
  EXPECT_EQ(rest.find("\"text\":\"\""), std::string::npos) << rest;
}

// Python's splitlines, and software using it, treats more characters as line ends than the standard.
TEST(server_sent_event, escapes_line_ends_of_unicode) {
  EXPECT_EQ(openai::as_event("{\"text\":\"a\xC2\x85\xE2\x80\xA8\xE2\x80\xA9\xE2\x80\xAA\xC3\xA9\"}"),
            "data: {\"text\":\"a\\u0085\\u2028\\u2029\xE2\x80\xAA\xC3\xA9\"}\n\n");
}

TEST_F(stream_life_test, answers_that_do_not_stream_have_no_pings) {
  config.limits.stream_head = 1ms;
  config.limits.sse_ping = 1ms;
  play = [](fake_job& job) {
    job.place();
    job.say_last(0, "x", finish_reason::length);
  };
  serve();
  const raw_response answer = post("/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(json::parse(answer.body)["choices"][0]["text"], "x");
}

} // namespace troupe::http_test
