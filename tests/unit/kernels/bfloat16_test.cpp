#include "kernels/bfloat16.hpp"

#include <bit>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

TEST(bfloat16_conversion, every_value_survives_the_way_to_float_and_back) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const bfloat16 value{static_cast<std::uint16_t>(bits)};
    const float wide = to_float(value);
    if (std::isnan(wide))
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(wide))));
    else
      EXPECT_EQ(to_bfloat16(wide), value);
  }
}

TEST(bfloat16_conversion, rounds_to_nearest_and_ties_to_even) {
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808000U)).bits, 0x3f80); // tie, even below
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f818000U)).bits, 0x3f82); // tie, even above
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f808001U)).bits, 0x3f81);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x3f807fffU)).bits, 0x3f80);
  EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::max()).bits, 0x7f80); // infinity
  EXPECT_EQ(to_bfloat16(-0.0F).bits, 0x8000);
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0x7f800001U)).bits, 0x7fc0); // stays NaN
  EXPECT_EQ(to_bfloat16(std::bit_cast<float>(0xff800001U)).bits, 0xffc0);
}

TEST(half_conversion, matches_the_definition_for_every_value) {
  for (std::uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const int exponent = static_cast<int>(bits >> 10 & 31U);
    const double fraction = static_cast<double>(bits & 1023U);
    double expected =
        exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024.0 + fraction, exponent - 25);
    if (exponent == 31)
      expected = fraction == 0 ? std::numeric_limits<double>::infinity() : std::nan("");
    if ((bits & 0x8000U) != 0)
      expected = -expected;
    const float got = half_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(got));
    else
      EXPECT_EQ(static_cast<double>(got), expected) << bits;
  }
}

} // namespace troupe::kernels
