// The operator's file of keys and limits.
#include "services/gateway/http/key_limits.hpp"

#include <stdexcept>

#include <gtest/gtest.h>

namespace troupe::http {
namespace {

const std::vector<std::string> names = {"alice", "bob"};

key_limit_table read(const std::string& text) {
  return parse_key_limits(text, "limits.json", names);
}

std::string error_of(const std::string& text) {
  try {
    read(text);
  } catch (const std::runtime_error& e) {
    return e.what();
  }
  return "";
}

TEST(key_limits, what_a_key_does_not_say_is_the_defaults) {
  const auto table = read(R"({"default":{"requests_per_minute":60,"concurrent_requests":4,"priority":false},
      "keys":{"alice":{"requests_per_minute":600,"concurrent_requests":null,"weight":5,"priority":true}}})");
  EXPECT_EQ(table.of("bob").requests_per_minute, 60U);
  EXPECT_EQ(table.of("bob").concurrent_requests, 4U);
  EXPECT_EQ(table.of("bob").tokens_per_minute, std::nullopt);
  EXPECT_EQ(table.of("bob").weight, 1U);
  EXPECT_FALSE(table.of("bob").priority);
  EXPECT_EQ(table.of("alice").requests_per_minute, 600U);
  EXPECT_EQ(table.of("alice").concurrent_requests, std::nullopt);
  EXPECT_EQ(table.of("alice").weight, 5U);
  EXPECT_TRUE(table.of("alice").priority);
}

TEST(key_limits, an_empty_object_limits_nobody) {
  EXPECT_EQ(read("{}").of("alice").requests_per_minute, std::nullopt);
}

TEST(key_limits, what_is_wrong_is_named) {
  EXPECT_EQ(error_of("[]"), "limits.json: holds no JSON object");
  EXPECT_EQ(error_of("{"), "limits.json: holds no JSON object");
  EXPECT_EQ(error_of(R"({"alice":{}})"), "limits.json: 'alice' is unknown; there are 'default' and 'keys'");
  EXPECT_EQ(error_of(R"({"keys":{"carol":{}}})"),
            "limits.json: no key of --api-key-file has the name 'carol'");
  EXPECT_EQ(error_of(R"({"keys":{"bob":{"weight":0}}})"),
            "limits.json: keys.bob.weight must be a whole number from 1 to 1000");
  EXPECT_TRUE(error_of(R"({"default":{"tokens_per_minute":1.5}})").ends_with(", or null for no limit"));
  EXPECT_NE(error_of(R"({"default":{"rpm":1}})").find("default.rpm is unknown"), std::string::npos);
  EXPECT_EQ(error_of(R"({"default":{"priority":1}})"), "limits.json: default.priority must be true or false");
}

TEST(key_limits, a_file_that_is_not_there_is_named) {
  EXPECT_THROW(read_key_limits("/nonexistent/limits.json", names), std::runtime_error);
}

} // namespace
} // namespace troupe::http
