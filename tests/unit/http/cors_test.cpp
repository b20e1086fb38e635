// Permissions of pages of other origins, as browsers request them.
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

constexpr const char* origin = "Origin: https://a.example\r\n";

class cors_test : public http_server_test {
 protected:
  raw_response preflight(const std::string& path, const std::string& headers) const {
    return ask(port, "OPTIONS", path, {}, "Access-Control-Request-Method: POST\r\n" + headers);
  }

  /// The permission in an answer; empty if the page may not see it.
  static std::string allowed(const raw_response& response) {
    const auto found = response.headers.find("access-control-allow-origin");
    return found == response.headers.end() ? "" : found->second;
  }
};

} // namespace

TEST_F(cors_test, is_off_unless_configured) {
  serve();
  const raw_response plain = get("/health", origin);
  EXPECT_EQ(allowed(plain), "");
  EXPECT_EQ(plain.headers.count("vary"), 0U);
  EXPECT_EQ(preflight("/v1/completions", origin).status, 405);
}

TEST_F(cors_test, lets_configured_origins_in_and_no_others) {
  config.allowed_origins = {"https://a.example", "http://localhost:3000"};
  serve();
  const raw_response allowed_one = get("/health", origin);
  EXPECT_EQ(allowed(allowed_one), "https://a.example");
  EXPECT_EQ(
      allowed_one.headers.at("access-control-expose-headers"),
      "x-request-id, x-troupe-seed, retry-after, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
      "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, "
      "x-ratelimit-reset-tokens");
  EXPECT_EQ(allowed(get("/health", "Origin: http://localhost:3000\r\n")), "http://localhost:3000");
  for (const char* other :
       {"https://b.example", "http://a.example", "https://a.example:8443", "null", "https://a.example.evil"})
    EXPECT_EQ(allowed(get("/health", std::string("Origin: ") + other + "\r\n")), "") << other;
}

// A cache must not give an origin the answer for another one, or for a client without one.
TEST_F(cors_test, answers_vary_with_the_origin_even_where_there_is_none) {
  config.allowed_origins = {"https://a.example"};
  serve();
  for (const char* headers : {origin, "Origin: https://b.example\r\n", ""})
    EXPECT_EQ(get("/health", headers).headers.at("vary"), "origin") << headers;
}

TEST_F(cors_test, a_star_lets_all_in_alike) {
  config.allowed_origins = {"*"};
  serve();
  const raw_response answer = get("/health", "Origin: https://any.example\r\n");
  EXPECT_EQ(allowed(answer), "*");
  EXPECT_EQ(answer.headers.count("vary"), 0U);
  EXPECT_EQ(allowed(get("/health", "Origin: null\r\n")), "*");
  EXPECT_EQ(allowed(get("/health")), "");
}

TEST_F(cors_test, a_preflight_is_answered_without_a_key) {
  config.allowed_origins = {"https://a.example"};
  config.keys = http::api_keys{{"the-key"}};
  serve();
  const raw_response answer =
      preflight("/v1/chat/completions",
                std::string(origin) + "Access-Control-Request-Headers: authorization,content-type\r\n");
  EXPECT_EQ(answer.status, 204);
  EXPECT_EQ(answer.body, "");
  EXPECT_EQ(allowed(answer), "https://a.example");
  EXPECT_EQ(answer.headers.at("access-control-allow-methods"), "GET, HEAD, POST");
  EXPECT_EQ(answer.headers.at("access-control-allow-headers"), "authorization,content-type");
  EXPECT_EQ(answer.headers.at("access-control-max-age"), "600");
  EXPECT_EQ(answer.headers.at("vary"), "origin");
  EXPECT_EQ(preflight("/v1/models", origin).headers.at("access-control-allow-headers"),
            "authorization, api-key, content-type, x-api-key, x-request-id");
}

TEST_F(cors_test, a_preflight_of_another_origin_allows_nothing) {
  config.allowed_origins = {"https://a.example"};
  serve();
  const raw_response answer = preflight("/v1/completions", "Origin: https://b.example\r\n");
  EXPECT_EQ(answer.status, 204);
  for (const char* name :
       {"access-control-allow-origin", "access-control-allow-methods", "access-control-allow-headers"})
    EXPECT_EQ(answer.headers.count(name), 0U) << name;
}

TEST_F(cors_test, pages_see_errors_and_streams) {
  config.allowed_origins = {"https://a.example"};
  config.keys = http::api_keys{{"the-key"}};
  serve();
  const std::string key =
      std::string(origin) + "Content-Type: application/json\r\nAuthorization: Bearer the-key\r\n";
  const raw_response streamed = post("/v1/completions", R"({"prompt":"a","stream":true})", key);
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(allowed(streamed), "https://a.example");
  EXPECT_EQ(streamed.headers.count("x-troupe-seed"), 1U);
  EXPECT_EQ(post("/v1/completions", "{", key).status, 400);
  EXPECT_EQ(allowed(post("/v1/completions", "{", key)), "https://a.example");
  const raw_response without_key = post("/v1/completions", R"({"prompt":"a"})", origin);
  EXPECT_EQ(without_key.status, 401);
  EXPECT_EQ(allowed(without_key), "https://a.example");
  const raw_response unknown = get("/none", origin);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(allowed(unknown), "https://a.example");
  const raw_response malformed =
      tell("GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n" + std::string(origin) + "\r\n");
  EXPECT_EQ(malformed.status, 400);
  EXPECT_EQ(allowed(malformed), "https://a.example");
}

TEST_F(cors_test, pages_see_that_there_are_too_many_connections) {
  config.allowed_origins = {"*"};
  config.limits.max_connections = 1;
  play = [](fake_job& job) { EXPECT_TRUE(job.wait_cancelled()); };
  serve();
  raw_client first{port};
  first.request("POST", "/v1/completions", R"({"prompt":"a"})");
  ASSERT_NE(backend->job(0), nullptr);
  raw_client second{port};
  const raw_response refused = second.read();
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(allowed(refused), "*");
  EXPECT_EQ(refused.headers.count("date"), 1U);
}

} // namespace troupe::http_test
