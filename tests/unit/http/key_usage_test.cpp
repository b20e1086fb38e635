// The usage of keys, with the test's time.
#include "services/gateway/http/key_usage.hpp"

#include <functional>

#include <gtest/gtest.h>

#include "services/gateway/openai/api_error.hpp"

namespace troupe::http {
namespace {

using namespace std::chrono_literals;

class key_usage_test : public testing::Test {
 protected:
  key_limit_table table;
  token_bucket::time_point now{};
  std::shared_ptr<metrics::registry> families = std::make_shared<metrics::registry>("troupe_");

  key_usage make(const std::vector<std::string>& names = {"alice", "bob"}) {
    return {table, names, std::make_shared<gateway_metrics>(families), [this] { return now; }};
  }

  /// The error with which `act` ends; status 0: none.
  static openai::api_error error_of(const std::function<void()>& act) {
    try {
      act();
    } catch (const openai::api_error& e) {
      return e;
    }
    return {0, "", ""};
  }

  bool shows(const std::string& line) const { return families->text().find(line) != std::string::npos; }
};

TEST_F(key_usage_test, requests_per_minute) {
  table.otherwise.requests_per_minute = 2;
  auto usage = make();
  usage.admit("alice");
  usage.admit("alice");
  const auto refused = error_of([&] { usage.admit("alice"); });
  EXPECT_EQ(refused.status, 429U);
  EXPECT_EQ(refused.code, "rate_limit_exceeded");
  EXPECT_EQ(refused.type, "requests");
  EXPECT_EQ(refused.retry_after, 30U);
  usage.admit("bob"); // each has its own
  now += 30s;
  usage.admit("alice");
  EXPECT_TRUE(shows("troupe_key_requests_total{key=\"alice\"} 3"));
  EXPECT_TRUE(shows("troupe_key_rejections_total{key=\"alice\",reason=\"requests\"} 1"));
  EXPECT_TRUE(shows("troupe_key_rejections_total{key=\"bob\",reason=\"requests\"} 0"));
}

TEST_F(key_usage_test, tokens_per_minute_are_those_of_prompts_and_completions) {
  table.otherwise.tokens_per_minute = 60;
  auto usage = make();
  {
    key_permit permit = usage.admit("alice");
    permit.take_prompt(50);
    permit.generated(30); // it may end what it has begun
  }
  const auto refused = error_of([&] { usage.admit("alice"); });
  EXPECT_EQ(refused.type, "tokens");
  EXPECT_EQ(refused.retry_after, 21U) << "twenty too many, and one to go on with";
  now += 30s;
  key_permit permit = usage.admit("alice");
  const auto too_long = error_of([&] { permit.take_prompt(20); });
  EXPECT_EQ(too_long.status, 429U);
  EXPECT_EQ(too_long.retry_after, 10U);
  const auto never = error_of([&] { permit.take_prompt(61); });
  EXPECT_EQ(never.status, 429U);
  EXPECT_EQ(never.retry_after, 0U) << "it never fits";
  permit.take_prompt(10);
  EXPECT_TRUE(shows("troupe_key_tokens_total{key=\"alice\",kind=\"prompt\"} 60"));
  EXPECT_TRUE(shows("troupe_key_tokens_total{key=\"alice\",kind=\"generation\"} 30"));
  EXPECT_TRUE(shows("troupe_key_rejections_total{key=\"alice\",reason=\"tokens\"} 3"));
}

TEST_F(key_usage_test, concurrent_requests_end_with_their_permits) {
  table.otherwise.concurrent_requests = 1;
  auto usage = make();
  {
    const key_permit first = usage.admit("alice");
    EXPECT_EQ(error_of([&] { usage.admit("alice"); }).retry_after, 1U);
    usage.admit("bob");
  }
  usage.admit("alice");
  EXPECT_TRUE(shows("troupe_key_rejections_total{key=\"alice\",reason=\"concurrency\"} 1"));
}

TEST_F(key_usage_test, headers_tell_what_is_left) {
  table.by_name["alice"].requests_per_minute = 60;
  table.by_name["alice"].tokens_per_minute = 6000;
  auto usage = make();
  key_permit permit = usage.admit("alice");
  permit.take_prompt(100);
  EXPECT_EQ(usage.headers("alice"), (header_list{{"x-ratelimit-limit-requests", "60"},
                                                 {"x-ratelimit-remaining-requests", "59"},
                                                 {"x-ratelimit-reset-requests", "1s"},
                                                 {"x-ratelimit-limit-tokens", "6000"},
                                                 {"x-ratelimit-remaining-tokens", "5900"},
                                                 {"x-ratelimit-reset-tokens", "1s"}}));
  EXPECT_TRUE(usage.headers("bob").empty());
  EXPECT_TRUE(usage.headers("").empty());
}

TEST_F(key_usage_test, without_keys_nothing_is_counted) {
  table.otherwise.requests_per_minute = 1;
  auto usage = make({});
  for (int i = 0; i < 3; ++i) {
    key_permit permit = usage.admit("");
    permit.take_prompt(10);
    permit.generated(10);
    EXPECT_EQ(permit.name(), "");
    EXPECT_EQ(permit.weight(), 1U);
  }
  EXPECT_FALSE(shows("key_requests_total"));
}

TEST_F(key_usage_test, other_limits_keep_what_was_used_and_what_runs) {
  table.otherwise.requests_per_minute = 60;
  table.otherwise.concurrent_requests = 2;
  auto usage = make();
  auto running = std::make_unique<key_permit>(usage.admit("alice"));
  auto leaving = std::make_unique<key_permit>(usage.admit("bob"));
  table.otherwise.requests_per_minute = 120;
  table.otherwise.concurrent_requests = 1;
  table.otherwise.weight = 7;
  usage.replace(table, {"alice", "carol"});
  EXPECT_EQ(usage.headers("alice")[1].second, "59");
  EXPECT_EQ(error_of([&] { usage.admit("alice"); }).status, 429U);
  running.reset();
  EXPECT_EQ(usage.admit("alice").weight(), 7U);
  EXPECT_EQ(usage.headers("carol")[1].second, "120");
  leaving->generated(5); // its key is gone, it may end
}

} // namespace
} // namespace troupe::http
