// While the cluster is full, requests are refused without asking it each time.
#include "services/gateway/http/recent_refusals.hpp"

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using namespace std::chrono_literals;
using http::recent_refusals;
using http::room_demand;

constexpr const char* as_alice = "authorization: Bearer a-key\r\n";
constexpr const char* as_bob = "api-key: b-key\r\n";

openai::api_error full(const std::string& text = "full") {
  return {429, "overloaded_error", text};
}

class recent_refusals_test : public http_server_test {
 protected:
  recent_refusals_test() {
    config.keys = http::api_keys::of({{"alice", "a-key"}, {"bob", "b-key"}});
    config.key_clock = [this] { return now.load(); };
    play = [](fake_job& job) { job.fail(ec::overloaded, "no room"); };
  }

  std::atomic<std::chrono::steady_clock::time_point> now{};
};

} // namespace

TEST(recent_refusals, hold_for_their_time_and_are_not_prolonged) {
  recent_refusals refusals{100ms};
  const recent_refusals::time_point begin{};
  EXPECT_FALSE(refusals.find("a", {10, 16}, begin));
  refusals.add("a", {10, 16}, full(), begin);
  refusals.add("a", {10, 16}, full("later"), begin + 60ms);
  ASSERT_TRUE(refusals.find("a", {10, 16}, begin + 99ms));
  EXPECT_STREQ(refusals.find("a", {10, 16}, begin + 99ms)->what(), "full");
  EXPECT_FALSE(refusals.find("b", {10, 16}, begin + 99ms));
  EXPECT_FALSE(refusals.find("a", {10, 16}, begin + 100ms));
  refusals.add("a", {10, 16}, full("again"), begin + 100ms);
  ASSERT_TRUE(refusals.find("a", {10, 16}, begin + 199ms));
  EXPECT_STREQ(refusals.find("a", {10, 16}, begin + 199ms)->what(), "again");
}

TEST(recent_refusals, say_nothing_of_requests_that_ask_for_less) {
  recent_refusals refusals{100ms};
  const recent_refusals::time_point begin{};
  const auto is_refused = [&](const room_demand& wanted, recent_refusals::time_point at) {
    return refusals.find("a", wanted, at).has_value();
  };
  refusals.add("a", {1000, 500}, full(), begin);
  EXPECT_TRUE(is_refused({1000, 500}, begin));
  EXPECT_TRUE(is_refused({1001, 501}, begin));
  EXPECT_FALSE(is_refused({999, 5000}, begin));
  EXPECT_FALSE(is_refused({5000, 499}, begin));
  refusals.add("a", {10, 600}, full(), begin); // less of one, more of the other
  EXPECT_FALSE(is_refused({10, 600}, begin)) << "one refusal is remembered, and that is another one";
  refusals.add("a", {10, 20}, full(), begin);
  EXPECT_TRUE(is_refused({10, 20}, begin));
  refusals.add("a", {500, 20}, full(),
               begin + 100ms); // another second: refusals of the last one no longer count
  EXPECT_FALSE(is_refused({499, 20}, begin + 100ms));
}

TEST(recent_refusals, of_no_time_never_hold) {
  recent_refusals refusals{0ms};
  refusals.add("a", {10, 16}, full(), {});
  EXPECT_FALSE(refusals.find("a", {10, 16}, {}));
}

TEST_F(recent_refusals_test, a_key_without_room_asks_once_in_that_time) {
  serve();
  const std::string body = R"({"prompt":"a","max_tokens":16})";
  const raw_response first = post("/v1/completions", body, as_alice);
  ASSERT_EQ(first.status, 429);
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const raw_response next =
        post(path, R"({"prompt":"a","messages":[{"role":"user","content":"a"}],"max_tokens":16})", as_alice);
    EXPECT_EQ(next.status, 429);
    EXPECT_EQ(next.body, first.body);
    EXPECT_EQ(next.headers.at("retry-after"), first.headers.at("retry-after"));
  }
  EXPECT_EQ(backend->num_jobs(), 1U);
  EXPECT_EQ(metric("troupe_admission_rejections_total{reason=\"overloaded\"}"), 3);
  post("/v1/completions", body, as_bob);
  EXPECT_EQ(backend->num_jobs(), 2U) << "another key asks";
  for (const char* other :
       {R"({"prompt":"a","max_tokens":16,"priority":-1})", R"({"prompt":"aaaa","max_tokens":8})",
        R"({"prompt":["a"],"max_tokens":8,"n":2,"truncate_prompt_tokens":1})"})
    post("/v1/completions", other, as_alice);
  EXPECT_EQ(backend->num_jobs(), 5U) << "one that may go before the others, or asks for less, asks";
  now = now.load() + config.limits.refusal_holds;
  post("/v1/completions", body, as_alice);
  EXPECT_EQ(backend->num_jobs(), 6U);
}

TEST_F(recent_refusals_test, other_failures_are_asked_again) {
  play = [](fake_job& job) { job.fail(ec::not_ready, "no worker"); };
  serve();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", as_alice).status, 503);
  EXPECT_EQ(backend->num_jobs(), 2U);
}

} // namespace troupe::http_test
