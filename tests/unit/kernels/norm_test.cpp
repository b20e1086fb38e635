#include "kernels/norm.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t widths[] = {1, 15, 16, 17, 64, 100, 1030};

} // namespace

TEST(rms_norm, is_near_the_definition_and_the_same_everywhere) {
  for (const std::size_t cols : widths) {
    constexpr std::size_t rows = 33;
    const auto x = random_floats(rows * cols, 1);
    const auto w = random_floats(cols, 2);
    reference_context reference;
    std::vector<float> expected(rows * cols, poison);
    const auto run = [&](context& ctx, std::size_t first, std::size_t count, std::vector<float>& out) {
      rms_norm(ctx, {.input = view_of(x.data() + first * cols, count, cols),
                     .weight = w.data(),
                     .epsilon = 1e-5F,
                     .weight_offset = 0.5F,
                     .output = view_of(out.data(), count, cols)});
    };
    run(reference.ctx, 0, rows, expected);
    for (std::size_t r = 0; r < rows; ++r) {
      double squares = 0.0;
      for (std::size_t i = 0; i < cols; ++i)
        squares += static_cast<double>(x[r * cols + i]) * static_cast<double>(x[r * cols + i]);
      const double scale = 1.0 / std::sqrt(squares / static_cast<double>(cols) + 1e-5);
      for (std::size_t i = 0; i < cols; ++i) {
        const double want = static_cast<double>(x[r * cols + i]) * scale * (static_cast<double>(w[i]) + 0.5);
        // More than the roundings of any path; sums run over at most 1030 / 16 + 4 of them.
        EXPECT_NEAR(static_cast<double>(expected[r * cols + i]), want, std::abs(want) * 90 * 0x1p-24);
      }
    }
    with_every_context([&](context& ctx) {
      std::vector<float> all(rows * cols, poison);
      run(ctx, 0, rows, all);
      EXPECT_TRUE(same_bits(all, expected)) << name_of(ctx.instruction_set()) << ' ' << cols;
      std::vector<float> one(cols, poison);
      run(ctx, 7, 1, one);
      EXPECT_TRUE(
          same_bits(std::span<const float>(one), std::span<const float>(expected).subspan(7 * cols, cols)));
    });
  }
}

TEST(rms_norm, runs_per_group_and_in_place) {
  // Two heads of 24: the same as two rows of 24.
  auto x = random_floats(4 * 48, 3);
  const auto w = random_floats(24, 4);
  reference_context reference;
  std::vector<float> expected(4 * 48, poison);
  rms_norm(
      reference.ctx,
      {.input = view_of(x.data(), 8, 24), .weight = w.data(), .output = view_of(expected.data(), 8, 24)});
  with_every_context([&](context& ctx) {
    std::vector<float> y = x;
    rms_norm(ctx, {.input = view_of(y.data(), 4, 48),
                   .weight = w.data(),
                   .output = view_of(y.data(), 4, 48),
                   .group = 24});
    EXPECT_TRUE(same_bits(y, expected));
  });
}

TEST(rms_norm, without_weights_is_that_of_ones) {
  const auto x = random_floats(4 * 50, 10);
  const std::vector<float> ones(25, 1.0F);
  with_every_context([&](context& ctx) {
    std::vector<float> expected(200, poison);
    std::vector<float> y(200, poison);
    rms_norm(ctx, {.input = view_of(x.data(), 4, 50),
                   .weight = ones.data(),
                   .output = view_of(expected.data(), 4, 50),
                   .group = 25});
    rms_norm(ctx, {.input = view_of(x.data(), 4, 50), .output = view_of(y.data(), 4, 50), .group = 25});
    EXPECT_TRUE(same_bits(y, expected)) << name_of(ctx.instruction_set());
  });
}

TEST(rms_norm, rounds_to_bf16_once) {
  const auto x = random_floats(3 * 50, 5);
  const auto w = random_floats(50, 6);
  with_every_context([&](context& ctx) {
    std::vector<float> wide(150, poison);
    std::vector<bfloat16> narrow(150);
    rms_norm(ctx,
             {.input = view_of(x.data(), 3, 50), .weight = w.data(), .output = view_of(wide.data(), 3, 50)});
    rms_norm(
        ctx,
        {.input = view_of(x.data(), 3, 50), .weight = w.data(), .output = view_of(narrow.data(), 3, 50)});
    EXPECT_TRUE(same_bits(narrow, rounded(wide)));
  });
}

TEST(layer_norm, is_near_the_definition_and_the_same_everywhere) {
  for (const std::size_t cols : widths) {
    constexpr std::size_t rows = 5;
    auto values = random_floats(rows * cols, 7);
    for (float& value : values)
      value += 30.2F; // means that BF16 does not have
    const auto x = rounded(values);
    const auto w = random_floats(cols, 8);
    const auto b = random_floats(cols, 9);
    reference_context reference;
    std::vector<float> expected(rows * cols, poison);
    const auto run = [&](context& ctx, std::vector<float>& out) {
      layer_norm(ctx, {.input = view_of(x.data(), rows, cols),
                       .weight = w.data(),
                       .bias = b.data(),
                       .output = view_of(out.data(), rows, cols)});
    };
    run(reference.ctx, expected);
    for (std::size_t r = 0; r < rows; ++r) {
      double mean = 0.0;
      for (std::size_t i = 0; i < cols; ++i)
        mean += static_cast<double>(to_float(x[r * cols + i])) / static_cast<double>(cols);
      double variance = 0.0;
      for (std::size_t i = 0; i < cols; ++i) {
        const double d = static_cast<double>(to_float(x[r * cols + i])) - mean;
        variance += d * d / static_cast<double>(cols);
      }
      for (std::size_t i = 0; i < cols; ++i) {
        const double d = static_cast<double>(to_float(x[r * cols + i])) - mean;
        const double want =
            d / std::sqrt(variance + 1e-5) * static_cast<double>(w[i]) + static_cast<double>(b[i]);
        EXPECT_NEAR(static_cast<double>(expected[r * cols + i]), want, 1e-4);
      }
    }
    with_every_context([&](context& ctx) {
      std::vector<float> y(rows * cols, poison);
      run(ctx, y);
      EXPECT_TRUE(same_bits(y, expected)) << name_of(ctx.instruction_set()) << ' ' << cols;
    });
  }
}

} // namespace troupe::kernels
