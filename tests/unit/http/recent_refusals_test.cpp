// While the cluster is full, requests are refused without asking it each time.
#include "services/gateway/http/recent_refusals.hpp"

#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using namespace std::chrono_literals;
using http::recent_refusals;

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
  EXPECT_FALSE(refusals.find("a", 10, begin));
  refusals.add("a", 10, full(), begin);
  refusals.add("a", 10, full("later"), begin + 60ms);
  ASSERT_TRUE(refusals.find("a", 10, begin + 99ms));
  EXPECT_STREQ(refusals.find("a", 10, begin + 99ms)->what(), "full");
  EXPECT_FALSE(refusals.find("b", 10, begin + 99ms));
  EXPECT_FALSE(refusals.find("a", 10, begin + 100ms));
  refusals.add("a", 10, full("again"), begin + 100ms);
  ASSERT_TRUE(refusals.find("a", 10, begin + 199ms));
  EXPECT_STREQ(refusals.find("a", 10, begin + 199ms)->what(), "again");
}

TEST(recent_refusals, say_nothing_of_shorter_requests) {
  recent_refusals refusals{100ms};
  const recent_refusals::time_point begin{};
  refusals.add("a", 1000, full(), begin);
  EXPECT_TRUE(refusals.find("a", 1001, begin));
  EXPECT_FALSE(refusals.find("a", 999, begin));
  refusals.add("a", 10, full(), begin);
  EXPECT_TRUE(refusals.find("a", 999, begin));
  refusals.add("a", 500, full(), begin + 100ms); // another time: what was refused in the last one is over
  EXPECT_FALSE(refusals.find("a", 499, begin + 100ms));
}

TEST(recent_refusals, of_no_time_never_hold) {
  recent_refusals refusals{0ms};
  refusals.add("a", 10, full(), {});
  EXPECT_FALSE(refusals.find("a", 10, {}));
}

TEST_F(recent_refusals_test, a_key_without_room_asks_once_in_that_time) {
  serve();
  const std::string body = R"({"prompt":"a"})";
  const raw_response first = post("/v1/completions", body, as_alice);
  ASSERT_EQ(first.status, 429);
  for (const char* path : {"/v1/completions", "/v1/chat/completions"}) {
    const raw_response next = post(path, R"({"messages":[{"role":"user","content":"a"}]})", as_alice);
    EXPECT_EQ(next.status, 429);
    EXPECT_EQ(next.body, first.body);
    EXPECT_EQ(next.headers.at("retry-after"), first.headers.at("retry-after"));
  }
  EXPECT_EQ(backend->num_jobs(), 1U);
  EXPECT_EQ(metric("troupe_admission_rejections_total{reason=\"overloaded\"}"), 3);
  post("/v1/completions", body, as_bob);
  EXPECT_EQ(backend->num_jobs(), 2U) << "another key asks";
  post("/v1/completions", R"({"prompt":"a","priority":-1})", as_alice);
  EXPECT_EQ(backend->num_jobs(), 3U) << "one that may go before the others asks";
  now = now.load() + config.limits.refusal_holds;
  post("/v1/completions", body, as_alice);
  EXPECT_EQ(backend->num_jobs(), 4U);
}

TEST_F(recent_refusals_test, other_failures_are_asked_again) {
  play = [](fake_job& job) { job.fail(ec::not_ready, "no worker"); };
  serve();
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(post("/v1/completions", R"({"prompt":"a"})", as_alice).status, 503);
  EXPECT_EQ(backend->num_jobs(), 2U);
}

} // namespace troupe::http_test
