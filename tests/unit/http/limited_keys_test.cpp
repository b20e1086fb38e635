// Keys and their limits, seen by clients.
#include <future>

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using namespace std::chrono_literals;

constexpr const char* as_alice = "authorization: Bearer a-key\r\n";
constexpr const char* as_bob = "api-key: b-key\r\n";

class limited_keys_test : public http_server_test {
 protected:
  limited_keys_test() {
    config.keys = http::api_keys::of({{"alice", "a-key"}, {"bob", "b-key"}});
    config.key_clock = [this] { return now.load(); };
  }

  std::atomic<std::chrono::steady_clock::time_point> now{};
};

} // namespace

TEST_F(limited_keys_test, beyond_its_rate_a_key_is_told_when_to_come_again) {
  config.key_limits.otherwise.requests_per_minute = 1;
  serve();
  const raw_response first = post("/v1/completions", R"({"prompt":"a"})", as_alice);
  EXPECT_EQ(first.status, 200);
  EXPECT_EQ(first.headers.at("x-ratelimit-limit-requests"), "1");
  EXPECT_EQ(first.headers.at("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(first.headers.at("x-ratelimit-reset-requests"), "1m0s");
  for (const char* body : {R"({"prompt":"a"})", R"({"prompt":"a","stream":true})"}) {
    const raw_response refused = post("/v1/completions", body, as_alice);
    EXPECT_EQ(refused.status, 429);
    EXPECT_EQ(refused.headers.at("retry-after"), "60");
    EXPECT_EQ(refused.headers.at("x-ratelimit-remaining-requests"), "0");
    EXPECT_EQ(error_of(refused)["code"], "rate_limit_exceeded");
  }
  EXPECT_EQ(post("/tokenize", R"({"prompt":"a"})", as_alice).status, 429);
  EXPECT_EQ(get("/v1/models", as_alice).status, 200) << "that costs nothing";
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", as_bob).status, 200);
  EXPECT_EQ(backend->num_jobs(), 2U);
  now = now.load() + 60s;
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", as_alice).status, 200);
  EXPECT_EQ(metric("troupe_key_rejections_total{key=\"alice\",reason=\"requests\"}"), 3);
  EXPECT_EQ(metric("troupe_key_requests_total{key=\"bob\"}"), 1);
}

TEST_F(limited_keys_test, tokens_count_as_they_come_streamed_or_not) {
  config.key_limits.otherwise.tokens_per_minute = 100;
  serve();
  // A prompt of two tokens and three new ones.
  post("/v1/completions", R"({"prompt":"a","max_tokens":3})", as_alice);
  const raw_response stream =
      post("/v1/completions", R"({"prompt":"a","max_tokens":3,"stream":true})", as_alice);
  EXPECT_EQ(stream.headers.count("x-ratelimit-remaining-tokens"), 1U);
  EXPECT_EQ(get("/v1/models", as_alice).headers.at("x-ratelimit-remaining-tokens"), "90");
  EXPECT_EQ(get("/v1/models", as_bob).headers.at("x-ratelimit-remaining-tokens"), "100");
  EXPECT_EQ(metric("troupe_key_tokens_total{key=\"alice\",kind=\"generation\"}"), 6);
}

TEST_F(limited_keys_test, a_request_that_runs_counts_until_it_ends) {
  config.key_limits.otherwise.concurrent_requests = 1;
  std::promise<void> end;
  play = [go = end.get_future().share()](fake_job& job) {
    go.wait();
    job.say_last(0, "x", finish_reason::length);
  };
  serve();
  raw_client client{port};
  client.request("POST", "/v1/completions", R"({"prompt":"a"})", as_alice);
  backend->job(0);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", as_alice).status, 429);
  end.set_value();
  EXPECT_EQ(client.read().status, 200);
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", as_alice).status, 200);
}

TEST_F(limited_keys_test, the_cluster_hears_whose_turn_it_is) {
  config.key_limits.by_name["alice"].weight = 5;
  config.key_limits.by_name["bob"].priority = false;
  serve();
  const char* urgent = R"({"prompt":"a","priority":-3})";
  post("/v1/completions", urgent, as_alice);
  post("/v1/completions", urgent, as_bob);
  EXPECT_EQ(backend->job(0)->asked.tenant, "alice");
  EXPECT_EQ(backend->job(0)->asked.weight, 5U);
  EXPECT_EQ(backend->job(0)->asked.priority, -3);
  EXPECT_EQ(backend->job(1)->asked.tenant, "bob");
  EXPECT_EQ(backend->job(1)->asked.weight, 1U);
  EXPECT_EQ(backend->job(1)->asked.priority, 0) << "it may not go before others";
}

TEST_F(limited_keys_test, keys_can_be_exchanged_while_the_server_runs) {
  config.key_limits.otherwise.requests_per_minute = 10;
  serve();
  EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", as_alice).status, 200);
  server->set_keys(http::api_keys::of({{"alice", "new-key"}}), config.key_limits);
  EXPECT_EQ(get("/v1/models", as_alice).status, 401);
  EXPECT_EQ(get("/v1/models", as_bob).status, 401);
  const raw_response renewed = get("/v1/models", "authorization: Bearer new-key\r\n");
  EXPECT_EQ(renewed.status, 200);
  EXPECT_EQ(renewed.headers.at("x-ratelimit-remaining-requests"), "9") << "it is the same client";
}

TEST_F(limited_keys_test, without_limits_there_are_no_headers) {
  serve();
  EXPECT_EQ(get("/v1/models", as_alice).headers.count("x-ratelimit-limit-requests"), 0U);
}

} // namespace troupe::http_test
