// The checks of a request's header, without a socket.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "services/gateway/http/client_stream.hpp"
#include "services/gateway/http/cors_policy.hpp"
#include "services/gateway/http/endpoints/routes.hpp"
#include "services/gateway/http/header_check.hpp"

#include <boost/asio/ssl/error.hpp>
#include <openssl/err.h>
#include <openssl/sslerr.h>

namespace troupe {

namespace {

using namespace http;

class header_check_test : public testing::Test {
 protected:
  using field_list = std::vector<std::pair<std::string_view, std::string_view>>;

  header_verdict check(std::string_view method, std::string_view target, field_list fields,
                       std::string_view peer = "127.0.0.1") {
    if (!context)
      context = std::make_unique<connection_context>(config, all_routes(), metrics);
    const request_header header{method, target, false, true, std::move(fields)};
    request = served_request{};
    note_header(header, request);
    return header_check(*context, *parse_network_address(peer), header, request).run();
  }

  http_server_config config;
  gateway_metrics metrics{std::make_shared<metrics::registry>("troupe_")};
  std::unique_ptr<connection_context> context;
  served_request request;
};

TEST_F(header_check_test, a_route_is_found_with_its_limit_of_the_body) {
  const auto page = check("GET", "/v1/models?x=1", {{"Host", "localhost"}});
  ASSERT_NE(page.where, nullptr);
  EXPECT_STREQ(page.where->path, "/v1/models");
  EXPECT_EQ(page.max_body_bytes, small_body);
  EXPECT_EQ(request.incoming.query, "x=1");
  const auto text = check("POST", "/tokenize", {{"host", "a"}, {"content-encoding", "GZIP"}});
  ASSERT_NE(text.where, nullptr);
  EXPECT_EQ(text.max_body_bytes, SIZE_MAX);
  EXPECT_EQ(request.coding, content_coding::gzip);
}

TEST_F(header_check_test, the_connection_ends_where_the_end_of_a_request_is_in_doubt) {
  EXPECT_EQ(check("GET", "/health", {}).answer.status, 400U);
  EXPECT_TRUE(request.close);
  EXPECT_EQ(check("GET", "/health", {{"host", "a"}, {"HOST", "b"}}).answer.status, 400U);
  EXPECT_TRUE(request.close);
  EXPECT_EQ(check("POST", "/tokenize", {{"host", "a"}, {"transfer-encoding", "gzip"}}).answer.status, 501U);
  EXPECT_TRUE(request.close);
  EXPECT_EQ(check("POST", "/tokenize", {{"host", "a"}, {"expect", "more"}}).answer.status, 417U);
  EXPECT_TRUE(request.close);
  EXPECT_EQ(check("GET", "/nowhere", {{"host", "a"}}).answer.status, 404U);
  EXPECT_FALSE(request.close);
}

TEST_F(header_check_test, a_refusal_has_the_header_that_helps) {
  config.keys = api_keys{{"the-key"}};
  const auto no_key = check("GET", "/v1/models", {{"host", "a"}});
  EXPECT_TRUE(no_key.refused);
  EXPECT_EQ(no_key.answer.headers, (header_list{{"www-authenticate", "Bearer"}}));
  EXPECT_EQ(check("DELETE", "/v1/models", {{"host", "a"}}).answer.headers,
            (header_list{{"allow", "GET, HEAD"}}));
  const auto coded =
      check("POST", "/tokenize", {{"host", "a"}, {"X-Api-Key", "the-key"}, {"content-encoding", "br"}});
  EXPECT_EQ(coded.answer.headers, (header_list{{"accept-encoding", known_codings}}));
  EXPECT_EQ(request.incoming.key_name, "key-1");
}

TEST_F(header_check_test, behind_a_proxy_the_requests_of_a_client_are_counted) {
  config.trusted_proxies = address_ranges({"10.0.0.0/8"}, "proxies");
  config.limits.max_connections_per_peer = 1;
  const std::string_view proxy = "10.0.0.1";
  EXPECT_NE(check("GET", "/health", {{"host", "a"}, {"x-forwarded-for", "1.2.3.4"}}, proxy).where, nullptr);
  const auto first = std::move(request.ticket);
  EXPECT_EQ(request.record.client, "1.2.3.4");
  EXPECT_EQ(check("GET", "/health", {{"host", "a"}, {"x-forwarded-for", "1.2.3.4"}}, proxy).answer.status,
            429U);
  EXPECT_NE(check("GET", "/health", {{"host", "a"}, {"x-forwarded-for", "1.2.3.5"}}, proxy).where, nullptr);
  EXPECT_NE(check("GET", "/health", {{"host", "a"}}, proxy).where, nullptr);
}

TEST_F(header_check_test, without_keys_operators_pages_are_for_programs_of_this_machine) {
  EXPECT_NE(check("GET", "/metrics", {{"host", "localhost:8000"}}).where, nullptr);
  EXPECT_EQ(check("GET", "/metrics", {{"host", "localhost"}}, "10.0.0.1").answer.status, 403U);
  EXPECT_EQ(check("GET", "/metrics", {{"host", "example.com"}}).answer.status, 403U);
  for (const char* name : {"origin", "x-forwarded-for", "forwarded"})
    EXPECT_EQ(check("GET", "/metrics", {{"host", "localhost"}, {name, "x"}}).answer.status, 403U) << name;
}

TEST_F(header_check_test, requests_about_the_server_need_no_route) {
  EXPECT_EQ(check("OPTIONS", "*", {{"host", "a"}}).answer.status, 204U);
  config.allowed_origins = {"https://page"};
  const auto asked =
      check("OPTIONS", "/tokenize",
            {{"host", "a"}, {"origin", "https://page"}, {"access-control-request-method", "POST"}});
  EXPECT_EQ(asked.where, nullptr);
  EXPECT_FALSE(asked.refused);
  EXPECT_EQ(asked.answer.headers.size(), 3U);
}

TEST(cors_policy_test, only_allowed_origins_may_read) {
  const std::vector<std::string> some{"https://page"};
  const cors_policy policy(some);
  EXPECT_EQ(policy.headers("https://page").front().second, "https://page");
  EXPECT_EQ(policy.headers("https://other"), (header_list{{"vary", "origin"}}));
  EXPECT_TRUE(policy.preflight("https://other", "").headers.empty());
  EXPECT_EQ(policy.preflight("https://page", "x-mine").headers[1].second, "x-mine");
  const std::vector<std::string> all{"*"};
  EXPECT_EQ(cors_policy(all).headers("https://page").front().second, "*");
  EXPECT_TRUE(cors_policy(all).headers("").empty());
}

TEST(handshake_failure_test, the_reason_of_a_failed_handshake_has_a_name) {
  const auto tls = [](int reason) {
    return boost::system::error_code(static_cast<int>(ERR_PACK(ERR_LIB_SSL, 0, reason)),
                                     boost::asio::error::get_ssl_category());
  };
  EXPECT_STREQ(handshake_failure(boost::asio::error::eof, false), "left");
  EXPECT_STREQ(handshake_failure(boost::asio::error::operation_aborted, true), "timeout");
  EXPECT_STREQ(handshake_failure(tls(SSL_R_HTTP_REQUEST), false), "plain_http");
  EXPECT_STREQ(handshake_failure(tls(SSL_R_NO_SHARED_CIPHER), false), "protocol");
}

} // namespace

} // namespace troupe
