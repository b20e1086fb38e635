// Faults and rare behaviour of clients: the edge of the protocol.
#include <regex>
#include <stdexcept>

#include "services/metrics/http_date.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using std::chrono::milliseconds;

class connection_test : public http_server_test {};

} // namespace

TEST_F(connection_test, malformed_requests_are_refused) {
  serve();
  const char* bad[] = {
      "GARBAGE\r\n\r\n",
      "GET /health\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n",
      "GET /health HTTP/1.1\r\n\r\n",
      "GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
      "GET /health HTTP/9.9\r\nHost: a\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}",
      "POST /v1/completions HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
  };
  for (const char* bytes : bad) {
    raw_client client{port};
    client.send(bytes);
    const raw_response response = client.read();
    EXPECT_EQ(response.status, 400) << bytes << response.body;
    EXPECT_EQ(response.headers.count("x-request-id"), 1U) << bytes;
    EXPECT_TRUE(client.ends()) << bytes;
  }
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(connection_test, empty_lines_before_a_request_count_for_nothing) {
  serve();
  raw_client client{port};
  const std::string request = "GET /health HTTP/1.1\r\nHost: a\r\n\r\n";
  client.send("\r");
  client.send("\n\r\n" + request);
  EXPECT_EQ(client.read().status, 200);
  client.send("\r\n" + request);
  EXPECT_EQ(client.read().status, 200) << "on a kept connection, too";
  client.send("\n" + request);
  EXPECT_EQ(client.read().status, 400) << "a bare line feed ends no line";
}

TEST_F(connection_test, paths_of_base_urls_that_were_put_together_differently_lead_to_the_page) {
  serve();
  for (const char* path : {"/v1/models", "/v1//models/", "//v1/models", "/models", "//models/"})
    EXPECT_EQ(get(path).status, 200) << path;
  EXPECT_EQ(post("/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})").status, 200);
  EXPECT_EQ(post("/completions", R"({"prompt":"a"})").status, 200);
  EXPECT_EQ(get("/v2/models").status, 404);
  EXPECT_EQ(get("/modelsx").status, 404);
}

TEST_F(connection_test, the_tokenizers_configuration_is_a_page) {
  serve();
  EXPECT_EQ(get("/tokenizer_info").body, R"({"tokenizer_class":"T"})");
}

TEST_F(connection_test, unknown_codings_and_expectations_are_refused) {
  serve();
  EXPECT_EQ(tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n").status,
            501);
  EXPECT_EQ(
      tell("POST /tokenize HTTP/1.1\r\nHost: a\r\nExpect: miracles\r\nContent-Length: 2\r\n\r\n").status,
      417);
}

TEST_F(connection_test, a_target_may_be_in_absolute_form) {
  serve();
  for (const char* target : {"http://a/health", "HTTP://a:8000/health?x=1", "https://user@[::1]:8000/health"})
    EXPECT_EQ(tell("GET " + std::string(target) + " HTTP/1.1\r\nHost: b\r\n\r\n").status, 200) << target;
  for (const char* target : {"http:///health", "http://a", "http://a?x", "ftp://a/health", "http:/health"})
    EXPECT_EQ(tell("GET " + std::string(target) + " HTTP/1.1\r\nHost: a\r\n\r\n").status, 404) << target;
}

TEST_F(connection_test, options_of_the_server_as_a_whole_are_told) {
  serve();
  const raw_response response = tell("OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n");
  EXPECT_EQ(response.status, 204);
  EXPECT_EQ(response.headers.at("allow"), "GET, HEAD, POST, OPTIONS");
}

TEST_F(connection_test, every_answer_has_its_date) {
  serve();
  const std::string form = "(Mon|Tue|Wed|Thu|Fri|Sat|Sun), [0-9]{2} [A-Z][a-z]{2} [0-9]{4} [0-9:]{8} GMT";
  for (const raw_response& response : {get("/health"), get("/none"), post("/v1/completions", "{"),
                                       post("/v1/completions", R"({"prompt":"a","stream":true})")})
    EXPECT_TRUE(std::regex_match(response.headers.at("date"), std::regex(form)))
        << response.headers.at("date");
  EXPECT_EQ(metrics::http_date(784111777), "Sun, 06 Nov 1994 08:49:37 GMT");
  EXPECT_EQ(metrics::http_date(1709164800), "Thu, 29 Feb 2024 00:00:00 GMT");
}

TEST_F(connection_test, a_host_may_be_an_ipv6_address_in_brackets) {
  config.host = "[::1]";
  try {
    serve();
  } catch (const std::runtime_error& e) {
    EXPECT_EQ(std::string(e.what()), "http: cannot listen on [::1]:0: Cannot assign requested address");
    GTEST_SKIP() << "this host has no IPv6";
  }
  EXPECT_NE(port, 0);
}

TEST_F(connection_test, bad_json_and_bad_utf8_are_400_and_the_connection_stays) {
  serve();
  raw_client client{port};
  for (const std::string body : {"", "{", "nonsense", "{\"prompt\":\"\xFF\"}", "[]", "{\"prompt\":5}"}) {
    client.request("POST", "/v1/completions", body);
    const raw_response response = client.read();
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(error_of(response)["type"], "invalid_request_error") << body;
  }
  client.request("POST", "/v1/completions", R"({"prompt":"a"})");
  EXPECT_EQ(client.read().status, 200);
}

TEST_F(connection_test, a_header_beyond_the_limit_is_431) {
  config.limits.max_header_bytes = 1024;
  serve();
  EXPECT_EQ(get("/health", "X-Long: " + std::string(2000, 'x') + "\r\n").status, 431);
  EXPECT_EQ(get("/" + std::string(2000, 'x')).status, 431);
}

} // namespace troupe::http_test
