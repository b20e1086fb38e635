#include "kernels/portable_math.hpp"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

namespace troupe::kernels {

TEST(portable_math, sine_and_cosine_agree_with_the_library) {
  std::mt19937_64 engine(1);
  std::uniform_real_distribution<double> small(-10.0, 10.0);
  std::uniform_real_distribution<double> large(-1.6e6, 1.6e6);
  for (int i = 0; i < 200000; ++i) {
    const double x = i % 2 == 0 ? small(engine) : large(engine);
    const auto [sine, cosine] = portable_sin_cos(x);
    ASSERT_NEAR(sine, std::sin(x), 3e-16) << x;
    ASSERT_NEAR(cosine, std::cos(x), 3e-16) << x;
  }
  EXPECT_EQ(portable_sin_cos(0.0).sine, 0.0);
  EXPECT_EQ(portable_sin_cos(0.0).cosine, 1.0);
}

TEST(portable_math, logarithm_agrees_with_the_library) {
  std::mt19937_64 engine(2);
  std::uniform_real_distribution<double> exponent(-300.0, 300.0);
  for (int i = 0; i < 100000; ++i) {
    const double x = i % 2 == 0 ? std::exp(exponent(engine)) : 1.0 + exponent(engine) / 1000.0;
    ASSERT_NEAR(portable_log(x), std::log(x), 4e-16 * std::max(std::abs(std::log(x)), 1e-3)) << x;
  }
  EXPECT_EQ(portable_log(1.0), 0.0);
  EXPECT_EQ(portable_log(0.0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(portable_log(-1.0)));
  EXPECT_TRUE(std::isnan(portable_log(std::nan(""))));
  EXPECT_NEAR(portable_log(5e-324), std::log(5e-324), 1e-12);
}

TEST(portable_math, exponential_agrees_with_the_library) {
  for (double x = -600.0; x < 600.0; x += 0.0137)
    ASSERT_NEAR(portable_exp(x) / std::exp(x), 1.0, 1e-15) << x;
}

} // namespace troupe::kernels
