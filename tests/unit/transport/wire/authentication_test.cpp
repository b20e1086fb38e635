#include "actors/transport/wire/authentication.hpp"

#include <gtest/gtest.h>

#include <string>

namespace troupe::wire {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span{text});
}

std::string hex(const digest& x) {
  std::string result;
  for (const auto byte : x) {
    constexpr char digits[] = "0123456789abcdef";
    result += digits[std::to_integer<unsigned>(byte) >> 4];
    result += digits[std::to_integer<unsigned>(byte) & 15];
  }
  return result;
}

// RFC 4231, test case 2.
TEST(authentication_test, computes_hmac_sha256) {
  const std::string text = "what do ya want for nothing?";
  EXPECT_EQ(hex(hmac_sha256("Jefe", {bytes_of(text)})),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

TEST(authentication_test, parts_are_concatenated) {
  const std::string first = "what do ya want ";
  const std::string second = "for nothing?";
  const std::string whole = first + second;
  EXPECT_EQ(hmac_sha256("Jefe", {bytes_of(first), bytes_of(second)}), hmac_sha256("Jefe", {bytes_of(whole)}));
}

TEST(authentication_test, compares_every_byte) {
  const auto x = hmac_sha256("k", {});
  for (std::size_t i = 0; i < x.size(); ++i) {
    auto y = x;
    EXPECT_TRUE(equal_digests(x, y));
    y[i] ^= std::byte{1};
    EXPECT_FALSE(equal_digests(x, y)) << i;
  }
}

TEST(authentication_test, random_bytes_differ) {
  nonce x{};
  nonce y{};
  fill_random(x);
  fill_random(y);
  EXPECT_NE(x, y);
}

} // namespace
} // namespace troupe::wire
