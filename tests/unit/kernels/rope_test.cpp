#include "kernels/rope.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i] / want[i], 1.0, 1e-13) << i;
}

} // namespace

// Expected numbers: the formulas of transformers' modeling_rope_utils evaluated in Python doubles.

TEST(rope_frequencies, default_and_linear) {
  expect_near(rope_inverse_frequencies({.rotary_dim = 4, .base = 10000.0}), {1.0, 0.01});
  expect_near(rope_inverse_frequencies(
                  {.rotary_dim = 4, .base = 10000.0, .scaling = rope_scaling::linear, .factor = 4.0}),
              {0.25, 0.0025});
}

TEST(rope_frequencies, yarn) {
  rope_config config{.rotary_dim = 16,
                     .base = 10000.0,
                     .scaling = rope_scaling::yarn,
                     .factor = 4.0,
                     .original_max_positions = 2048};
  expect_near(rope_inverse_frequencies(config), {1.0, 0.31622776601683794, 0.1, 0.02569350598886808, 0.00625,
                                                 0.0013834964763236657, 0.00025, 7.905694150420948e-05});
  EXPECT_NEAR(rope_attention_factor(config), 1.138629436111989, 1e-15);
  config.attention_factor = 0.7;
  EXPECT_EQ(rope_attention_factor(config), 0.7);

  const rope_config untruncated{.rotary_dim = 16,
                                .base = 150000.0,
                                .scaling = rope_scaling::yarn,
                                .factor = 32.0,
                                .original_max_positions = 4096,
                                .truncate = false};
  expect_near(rope_inverse_frequencies(untruncated),
              {1.0, 0.2254180002028708, 0.050813274815461475, 0.006794959489732219, 0.00045648391922324086,
               1.818833668168956e-05, 4.0999784818029795e-06, 9.242089502428301e-07});
  EXPECT_NEAR(rope_attention_factor(untruncated), 1.3465735902799727, 1e-15);

  const rope_config scaled{.rotary_dim = 64,
                           .scaling = rope_scaling::yarn,
                           .factor = 40.0,
                           .original_max_positions = 4096,
                           .mscale = 1.0,
                           .mscale_all_dim = 0.707};
  EXPECT_NEAR(rope_attention_factor(scaled), 1.0857263992561355, 1e-15);
  EXPECT_NEAR(rope_softmax_factor(scaled), 1.5896261651208736, 1e-15);
  EXPECT_EQ(rope_softmax_factor(untruncated), 1.0);
}

TEST(rope_frequencies, longrope) {
  rope_config config{.rotary_dim = 8,
                     .base = 10000.0,
                     .scaling = rope_scaling::longrope,
                     .divisors = {1.0, 1.25, 4.0, 50.0}};
  expect_near(rope_inverse_frequencies(config), {1.0, 0.08, 0.0025, 2e-05});
  EXPECT_EQ(rope_attention_factor(config), 1.0);
  config.attention_factor = 1.243163121016122;
  EXPECT_EQ(rope_attention_factor(config), 1.243163121016122);
  const rope_table table(config, 2);
  EXPECT_EQ(table.cos_at(0)[3], 1.243163121016122F);
  config.divisors.pop_back();
  EXPECT_THROW(rope_inverse_frequencies(config), kernel_error);
  config.divisors.push_back(0.0);
  EXPECT_THROW(rope_inverse_frequencies(config), kernel_error);
}

TEST(rope_frequencies, llama3) {
  expect_near(rope_inverse_frequencies({.rotary_dim = 16,
                                        .base = 500000.0,
                                        .scaling = rope_scaling::llama3,
                                        .factor = 8.0,
                                        .original_max_positions = 8192,
                                        .low_freq_factor = 1.0,
                                        .high_freq_factor = 4.0}),
              {1.0, 0.19392274474868576, 0.03760603093086393, 0.0072926647372171085, 0.0005248461609929547,
               3.428102195952591e-05, 6.647869871181236e-06, 1.2891731721515574e-06});
}

TEST(rope_frequencies, refuses_nonsense) {
  EXPECT_THROW(rope_inverse_frequencies({.rotary_dim = 3}), kernel_error);
  EXPECT_THROW(rope_inverse_frequencies({.rotary_dim = 4, .base = 0.0}), kernel_error);
  EXPECT_THROW(rope_inverse_frequencies({.rotary_dim = 4, .scaling = rope_scaling::linear, .factor = 0.0}),
               kernel_error);
  EXPECT_THROW(rope_inverse_frequencies({.rotary_dim = 4, .scaling = rope_scaling::yarn, .factor = 2.0}),
               kernel_error);
}

TEST(rope_table, rounds_once) {
  const rope_table table({.rotary_dim = 64, .base = 10000.0}, 3000);
  for (std::size_t p = 0; p < 3000; p += 37)
    for (std::size_t i = 0; i < 32; ++i) {
      const double angle = static_cast<double>(p) * std::pow(10000.0, -static_cast<double>(2 * i) / 64.0);
      // The double is within 1e-12 of the truth (the angle is rounded), the float within half an ulp of the
      // double.
      EXPECT_NEAR(static_cast<double>(table.cos_at(p)[i]), std::cos(angle), 0x1p-24);
      EXPECT_NEAR(static_cast<double>(table.sin_at(p)[i]), std::sin(angle), 0x1p-24);
    }
}

class rope_places : public testing::TestWithParam<std::size_t> {};

TEST_P(rope_places, rotates_pairs_of_both_styles_and_leaves_the_rest) {
  const std::size_t first = GetParam();
  constexpr std::size_t head_dim = 40;
  constexpr std::size_t rotary = 24;
  constexpr std::size_t heads = 3;
  constexpr std::size_t rows = 170;
  const rope_table table({.rotary_dim = rotary}, 500);
  const auto x = random_floats(rows * heads * head_dim, 1);
  std::vector<std::uint32_t> positions(rows);
  for (std::size_t r = 0; r < rows; ++r)
    positions[r] = static_cast<std::uint32_t>(r * 7 % 500);
  for (const rope_style style : {rope_style::rotate_half, rope_style::interleaved})
    with_every_context([&](context& ctx) {
      std::vector<float> y = x;
      rope(ctx,
           {view_of(y.data(), rows, heads * head_dim), heads, head_dim, positions, &table, style, first});
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t h = 0; h < heads; ++h) {
          const float* before = x.data() + (r * heads + h) * head_dim;
          const float* after = y.data() + (r * heads + h) * head_dim;
          for (std::size_t i = 0; i < rotary / 2; ++i) {
            const std::size_t low = first + (style == rope_style::rotate_half ? i : 2 * i);
            const std::size_t high = first + (style == rope_style::rotate_half ? i + rotary / 2 : 2 * i + 1);
            const float cos = table.cos_at(positions[r])[i];
            const float sin = table.sin_at(positions[r])[i];
            ASSERT_EQ(after[low], std::fma(before[low], cos, -(before[high] * sin)));
            ASSERT_EQ(after[high], std::fma(before[high], cos, before[low] * sin));
          }
          for (std::size_t i = 0; i < head_dim; ++i)
            if (i < first || i >= first + rotary)
              ASSERT_EQ(after[i], before[i]);
        }
    });
}

INSTANTIATE_TEST_SUITE_P(rope, rope_places, testing::Values(0, 5, 16)); // the first, some, the last

} // namespace troupe::kernels
