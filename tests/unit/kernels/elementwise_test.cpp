#include "kernels/elementwise.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "kernels/embedding.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

double exact(activation kind, double x) {
  switch (kind) {
  case activation::silu:
    return x / (1.0 + std::exp(-x));
  case activation::gelu_tanh:
    return 0.5 * x * (1.0 + std::tanh(std::sqrt(2.0 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  case activation::gelu_erf:
    return 0.5 * x * std::erfc(-x / std::sqrt(2.0));
  case activation::clamped_glu: {
    const double g = std::min(x, static_cast<double>(usual_act_limit));
    return g / (1.0 + std::exp(-1.702 * g));
  }
  }
  return 0.0;
}

constexpr activation kinds[] = {activation::silu, activation::gelu_tanh, activation::gelu_erf,
                                activation::clamped_glu};

} // namespace

TEST(activation, is_near_the_definition) {
  std::vector<float> x;
  for (float v = -20.0F; v <= 20.0F; v += 0.0137F)
    x.push_back(v);
  reference_context reference;
  std::vector<float> y(x.size(), poison);
  for (const activation kind : kinds) {
    activate(reference.ctx, kind, view_of(x.data(), 1, x.size()), view_of(y.data(), 1, x.size()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double want = exact(kind, static_cast<double>(x[i]));
      // exp within 2 ulp and |x| up to 20 in its argument; the erf's polynomial within 1.5e-7, times |x| / 2.
      const double tail = kind == activation::gelu_erf ? 0.75e-7 * std::abs(static_cast<double>(x[i])) : 1e-9;
      EXPECT_NEAR(static_cast<double>(y[i]), want, 2e-6 * std::abs(want) + tail) << x[i];
    }
  }
}

TEST(activation, survives_extremes) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> x{0.0F, 1e30F, 200.0F, -200.0F, std::nanf(""), inf, usual_act_limit};
  with_every_context([&](context& ctx) {
    for (const activation kind : kinds) {
      std::vector<float> y(x.size(), poison);
      activate(ctx, kind, view_of(x.data(), 1, x.size()), view_of(y.data(), 1, x.size()));
      EXPECT_EQ(y[0], 0.0F);
      const bool is_clamped = kind == activation::clamped_glu;
      EXPECT_EQ(y[1], is_clamped ? y[6] : 1e30F);
      EXPECT_EQ(y[2], is_clamped ? y[6] : 200.0F);
      EXPECT_EQ(std::abs(y[3]), 0.0F);
      EXPECT_TRUE(std::isnan(y[4]));
      EXPECT_EQ(y[5], is_clamped ? y[6] : inf);
    }
  });
}

// gpt-oss's unit, in double.
TEST(activation, clamps_both_halves_of_a_gated_unit) {
  const auto gate = random_floats(999, 7, 2.0F);
  auto up = random_floats(999, 8, 2.0F);
  up.front() = std::nanf("");
  constexpr float limit = 1.5F;
  with_every_context([&](context& ctx) {
    std::vector<float> y(999, poison);
    gated_activation(ctx, activation::clamped_glu, view_of(gate.data(), 1, 999), view_of(up.data(), 1, 999),
                     view_of(y.data(), 1, 999), limit);
    EXPECT_TRUE(std::isnan(y.front()));
    for (std::size_t i = 1; i < y.size(); ++i) {
      const double g = static_cast<double>(std::min(gate[i], limit));
      const double u = static_cast<double>(std::clamp(up[i], -limit, limit));
      const double want = (u + 1.0) * (g / (1.0 + std::exp(-1.702 * g)));
      EXPECT_NEAR(static_cast<double>(y[i]), want, 2e-6 * std::abs(want) + 1e-7) << gate[i] << ' ' << up[i];
    }
  });
}

TEST(activation, is_the_same_everywhere) {
  constexpr std::size_t rows = 40;
  constexpr std::size_t cols = 999;
  const auto gate = random_floats(rows * cols, 1, 3.0F);
  const auto up = rounded(random_floats(rows * cols, 2));
  reference_context reference;
  for (const activation kind : kinds) {
    std::vector<float> expected(rows * cols, poison);
    gated_activation(reference.ctx, kind, view_of(gate.data(), rows, cols), view_of(up.data(), rows, cols),
                     view_of(expected.data(), rows, cols));
    with_every_context([&](context& ctx) {
      std::vector<float> y(rows * cols, poison);
      gated_activation(ctx, kind, view_of(gate.data(), rows, cols), view_of(up.data(), rows, cols),
                       view_of(y.data(), rows, cols));
      EXPECT_TRUE(same_bits(y, expected)) << name_of(ctx.instruction_set());
      std::vector<bfloat16> narrow(rows * cols);
      gated_activation(ctx, kind, view_of(gate.data(), rows, cols), view_of(up.data(), rows, cols),
                       view_of(narrow.data(), rows, cols));
      EXPECT_TRUE(same_bits(narrow, rounded(expected)));
    });
  }
}

TEST(add_rows, adds_in_f32) {
  const auto a = random_floats(20 * 1001, 3);
  const auto b = rounded(random_floats(20 * 1001, 4));
  with_every_context([&](context& ctx) {
    std::vector<float> sum = a;
    add_rows(ctx, view_of(b.data(), 20, 1001), view_of(sum.data(), 20, 1001));
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_EQ(sum[i], a[i] + to_float(b[i]));
    sum = a;
    add_rows(ctx, view_of(b.data(), 20, 1001), view_of(sum.data(), 20, 1001), 0.22F);
    for (std::size_t i = 0; i < sum.size(); ++i)
      ASSERT_EQ(sum[i], std::fma(0.22F, to_float(b[i]), a[i]));
  });
}

TEST(divide_rows, divides_the_views_columns) {
  const auto a = random_floats(20 * 1001, 9);
  with_every_context([&](context& ctx) {
    std::vector<float> y = a;
    divide_rows(ctx, view_of(y.data(), 20, 1001).columns(0, 1000), 6.0F);
    for (std::size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], i % 1001 == 1000 ? a[i] : a[i] / 6.0F);
  });
}

TEST(convert_rows, rounds_and_widens) {
  const auto a = random_floats(3 * 37, 5);
  with_every_context([&](context& ctx) {
    std::vector<bfloat16> narrow(3 * 37);
    convert_rows(ctx, view_of(a.data(), 3, 37), view_of(narrow.data(), 3, 37));
    EXPECT_TRUE(same_bits(narrow, rounded(a)));
    std::vector<float> wide(3 * 37, poison);
    convert_rows(ctx, view_of(narrow.data(), 3, 37), view_of(wide.data(), 3, 37));
    EXPECT_TRUE(same_bits(wide, widened(narrow)));
  });
}

TEST(embed, looks_rows_up_in_every_type) {
  const auto table = random_floats(11 * 37, 6);
  const auto table16 = rounded(table);
  std::vector<std::uint16_t> halves(11 * 37);
  for (std::size_t i = 0; i < halves.size(); ++i)
    halves[i] = static_cast<std::uint16_t>(0x3000 + i);
  const_tensor_view half_view{reinterpret_cast<const std::byte*>(halves.data()), dtype::f16, 11, 37, 37};
  const std::vector<std::uint32_t> tokens{10, 0, 3, 3};
  with_every_context([&](context& ctx) {
    std::vector<float> y(4 * 37, poison);
    embed(ctx, view_of(table.data(), 11, 37), tokens, view_of(y.data(), 4, 37));
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], table[tokens[i / 37] * 37 + i % 37]);
    embed(ctx, view_of(table16.data(), 11, 37), tokens, view_of(y.data(), 4, 37), 2.5F);
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], to_float(table16[tokens[i / 37] * 37 + i % 37]) * 2.5F);
    std::vector<bfloat16> narrow(4 * 37);
    embed(ctx, half_view, tokens, view_of(narrow.data(), 4, 37));
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(narrow[i], to_bfloat16(half_to_float(halves[tokens[i / 37] * 37 + i % 37])));
  });
}

TEST(add_positions, adds_the_row_of_each_position_rounded_once) {
  const auto table = random_floats(11 * 37, 7);
  const auto before = random_floats(4 * 37, 8);
  const std::vector<std::uint32_t> positions{10, 0, 3, 3};
  with_every_context([&](context& ctx) {
    auto y = before;
    add_positions(ctx, view_of(table.data(), 11, 37), positions, view_of(y.data(), 4, 37));
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i], before[i] + table[positions[i / 37] * 37 + i % 37]);
  });
}

} // namespace troupe::kernels
