// The client of our own programs: URLs, and trust in servers.
#include "services/client/server_url.hpp"

#include <gmock/gmock.h>

#include "services/client/server_flags.hpp"
#include "tests/unit/http/http_server_fixture.hpp"

namespace troupe::http_test {

namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

class http_client_test : public http_server_test {
 protected:
  /// GET /health of `url`; the error's text if there is no answer.
  std::string ask_health(const std::string& url, const server_trust& trust = {}) const {
    const server_url asked = parse_url(url, trust);
    try {
      const http_answer answer = fetch(asked, "GET", "/health", {}, std::chrono::seconds{10});
      return std::to_string(answer.status) + " " + answer.body;
    } catch (const http_error& failure) {
      return failure.what();
    }
  }

  std::string at(const std::string& scheme, const std::string& host = "127.0.0.1") const {
    return scheme + "://" + host + ":" + std::to_string(port);
  }
};

} // namespace

TEST(parse_url, takes_host_and_port_with_and_without_the_scheme) {
  for (const char* text : {"http://example.com:8000", "http://example.com:8000/", "example.com:8000"}) {
    auto server = parse_url(text);
    EXPECT_EQ(server.host, "example.com") << text;
    EXPECT_EQ(server.port, 8000) << text;
    EXPECT_EQ(server.api_key, "") << text;
    EXPECT_EQ(server.tls, nullptr) << text;
  }
  auto ipv6 = parse_url("http://[::1]:65535");
  EXPECT_EQ(ipv6.host, "::1");
  EXPECT_EQ(ipv6.port, 65535);
  auto secure = parse_url("https://example.com:443/");
  EXPECT_EQ(secure.host, "example.com");
  EXPECT_EQ(secure.port, 443);
  EXPECT_NE(secure.tls, nullptr);
}

TEST(parse_url, refuses_what_has_a_path_or_no_port) {
  EXPECT_THAT([] { parse_url("http://example.com:8000/v1"); },
              ThrowsMessage<option_error>(
                  HasSubstr("--url: 'http://example.com:8000/v1' is not of the form http://HOST:PORT")));
  for (const char* text :
       {"", "/", "http://", "https://", "example.com", "http://example.com", "https://example.com", ":8000",
        "example.com:", "example.com:http", "example.com:65536", "example.com:-1", "ftp://example.com:80",
        "example.com:8000x"})
    EXPECT_THROW(parse_url(text), option_error) << text;
}

TEST(parse_url, a_file_without_certificates_is_named) {
  EXPECT_THAT(
      [] {
        parse_url("https://example.com:443", {"/nowhere/ca.pem", false});
      },
      ThrowsMessage<option_error>(StartsWith("--ca-file: /nowhere/ca.pem has no certificates")));
}

TEST_F(http_client_test, asks_over_tls_whom_it_trusts) {
  use_tls();
  serve();
  const std::string healthy = "200 " + get("/health").body;
  EXPECT_EQ(ask_health(at("https"), {certificate.certificate, false}), healthy);
  EXPECT_EQ(ask_health(at("https"), {{}, true}), healthy);
  EXPECT_THAT(ask_health(at("https")),
              StartsWith("GET /health: the certificate of 127.0.0.1 is not trusted "));
}

TEST_F(http_client_test, the_certificate_must_be_for_the_host) {
  use_tls();
  config.host = "localhost"; // which is not in the certificate
  serve();
  EXPECT_EQ(ask_health(at("https", "localhost"), {certificate.certificate, false}),
            "GET /health: the certificate of localhost is not trusted (it is for another host): name its "
            "issuer with --ca-file, or say --insecure");
}

TEST_F(http_client_test, the_wrong_scheme_is_told) {
  serve();
  EXPECT_EQ(ask_health(at("https"), {{}, true}),
            "GET /health: the server does not speak TLS: begin the URL with http://");
  server.reset();
  use_tls();
  serve();
  EXPECT_THAT(ask_health(at("http")), HasSubstr("This port speaks TLS: begin the URL with https://"));
}

} // namespace troupe::http_test
