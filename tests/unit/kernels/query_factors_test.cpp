#include "kernels/query_factors.hpp"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

TEST(query_factors, grow_with_the_position) {
  const std::vector<float> factors = query_factors(0.1, 8.0, 1000);
  ASSERT_EQ(factors.size(), 1000U);
  for (std::size_t p = 0; p < factors.size(); ++p) {
    const double wanted = 1.0 + 0.1 * std::log1p(std::floor((static_cast<double>(p) + 1.0) / 8.0));
    EXPECT_NEAR(static_cast<double>(factors[p]), wanted, wanted * 0x1p-24 + 1e-15) << p;
  }
  EXPECT_EQ(factors[6], 1.0F);
  EXPECT_EQ(factors[7], static_cast<float>(1.0 + 0.1 * std::log(2.0)));
}

TEST(query_factors, refuses_nonsense) {
  EXPECT_THROW(query_factors(0.1, 0.0, 1), kernel_error);
  EXPECT_THROW(query_factors(std::numeric_limits<double>::quiet_NaN(), 1.0, 1), kernel_error);
}

TEST(scale_queries, multiplies_rows_by_their_positions_factor) {
  const auto x = random_floats(20 * 1001, 1);
  const auto factors = random_floats(30, 2);
  std::vector<std::uint32_t> positions(20);
  for (std::size_t r = 0; r < positions.size(); ++r)
    positions[r] = static_cast<std::uint32_t>(r * 7 % 30);
  with_every_context([&](context& ctx) {
    std::vector<float> y = x;
    // The last column is not of the view.
    scale_queries(ctx, view_of(y.data(), 20, 1001).columns(0, 1000), positions, factors);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], i % 1001 == 1000 ? x[i] : x[i] * factors[positions[i / 1001]]);
  });
}

} // namespace troupe::kernels
