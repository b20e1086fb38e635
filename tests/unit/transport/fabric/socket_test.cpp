#include "actors/transport/fabric/socket.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe::wire {
namespace {

TEST(endpoint_test, is_host_and_port) {
  EXPECT_EQ(parse_endpoint("a.example:70").host, "a.example");
  EXPECT_EQ(parse_endpoint("a.example:70").port, 70);
  EXPECT_EQ(parse_endpoint("[::1]:8000").host, "::1");
  EXPECT_EQ(to_string(parse_endpoint("[::1]:8000")), "[::1]:8000");
  EXPECT_EQ(to_string(parse_endpoint("h:0")), "h:0");
}

TEST(endpoint_test, refuses_anything_else_and_quotes_it) {
  for (const std::string text : {"", "host", "host:", ":80", "host:70000", "host:8x", "host:-1"}) {
    try {
      parse_endpoint(text);
      ADD_FAILURE() << text;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string{e.what()}.find("'" + text + "'"), std::string::npos);
    }
  }
}

TEST(socket_test, any_free_port_is_reported) {
  const auto first = listen_on({"127.0.0.1", 0});
  EXPECT_NE(bound_port(first), 0);
  try {
    listen_on({"127.0.0.1", bound_port(first)});
    ADD_FAILURE() << "the same port twice";
  } catch (const std::runtime_error& e) {
    EXPECT_NE(std::string{e.what()}.find(std::to_string(bound_port(first))), std::string::npos);
  }
}

} // namespace
} // namespace troupe::wire
