#include "load/http_client.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/options/option_parser.hpp"

namespace troupe::load {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(parse_url, takes_host_and_port_with_and_without_the_scheme) {
  for (const char* text : {"http://example.com:8000", "http://example.com:8000/", "example.com:8000"}) {
    auto server = parse_url(text);
    EXPECT_EQ(server.host, "example.com") << text;
    EXPECT_EQ(server.port, 8000) << text;
    EXPECT_EQ(server.api_key, "") << text;
  }
  auto ipv6 = parse_url("http://[::1]:65535");
  EXPECT_EQ(ipv6.host, "::1");
  EXPECT_EQ(ipv6.port, 65535);
}

TEST(parse_url, refuses_what_has_a_path_or_no_port) {
  EXPECT_THAT([] { parse_url("http://example.com:8000/v1"); },
              ThrowsMessage<option_error>(
                  HasSubstr("--url: 'http://example.com:8000/v1' is not of the form http://HOST:PORT")));
  for (const char* text :
       {"", "/", "http://", "example.com", "http://example.com", ":8000", "example.com:", "example.com:http",
        "example.com:65536", "example.com:-1", "https://example.com:443", "example.com:8000x"}) {
    EXPECT_THROW(parse_url(text), option_error) << text;
  }
}

} // namespace
} // namespace troupe::load
