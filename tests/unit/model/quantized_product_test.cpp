// Quantized weights: their integers, and the documented sums on every instruction set.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include <gtest/gtest.h>

#include "kernels/cpu/tables/quant_table.hpp"
#include "kernels/error.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/quantize.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

constexpr packed_format quantized_formats[] = {packed_format::int8_channel, packed_format::int4_channel,
                                               packed_format::int4_group32, packed_format::int4_group64};

// A channel's integers in products, its scale, and 2⁻²⁴ if they are in the top byte.
struct channel {
  std::vector<float> integers;
  float scale = 0.0F;
  float unit = 1.0F;
};

channel quantize(packed_format format, std::span<const float> weights) {
  std::vector<std::int8_t> q(weights.size());
  channel result{std::vector<float>(weights.size())};
  if (format == packed_format::int8_channel) {
    result.scale = quantize_int8(weights, q.data());
    result.unit = 0x1p-24F;
  } else if (format == packed_format::int4_channel) {
    result.scale = quantize_int4(weights, q.data());
  } else {
    const std::size_t group = format == packed_format::int4_group32 ? 32 : 64;
    std::vector<std::int8_t> g((weights.size() + group - 1) / group);
    result.scale = quantize_int4_groups(weights, group, q.data(), g.data());
    for (std::size_t k = 0; k < weights.size(); ++k) {
      EXPECT_LE(std::abs(g[k / group]), max_group_scale);
      result.integers[k] = static_cast<float>(q[k] * g[k / group]);
    }
    return result;
  }
  for (std::size_t k = 0; k < weights.size(); ++k)
    result.integers[k] = static_cast<float>(q[k]);
  return result;
}

float documented(const bfloat16* x, const channel& w) {
  const std::size_t k_count = w.integers.size();
  const auto weight = [&](std::size_t k) {
    return k < k_count ? w.integers[k] * (w.unit == 1.0F ? 1.0F : 0x1p24F) : 0.0F;
  };
  const auto value = [&](std::size_t k) { return k < k_count ? to_float(x[k]) : 0.0F; };
  float c = 0.0F;
  for (std::size_t block = 0; block < k_count; block += 32) {
    float even = 0.0F;
    float odd = 0.0F;
    for (std::size_t k = block; k < block + 32; k += 2) {
      even = std::fma(value(k), weight(k), even);
      odd = std::fma(value(k + 1), weight(k + 1), odd);
    }
    c += even + odd;
  }
  return c * (w.scale * w.unit);
}

float documented_int8(const bfloat16* x, const channel& w) {
  float max = 0.0F;
  for (std::size_t k = 0; k < w.integers.size(); ++k)
    max = std::max(max, std::abs(to_float(x[k])));
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < w.integers.size(); ++k)
    sum += std::lrint(to_float(x[k]) * (127.0F / max)) * std::lrint(w.integers[k]);
  return static_cast<float>(sum) * (max / 127.0F) * w.scale;
}

struct shape {
  std::size_t n;
  std::size_t k;
};

const std::vector<shape> shapes{{1, 1}, {16, 32}, {50, 70}, {130, 96}, {33, 300}, {20, 1000}, {66, 600}};

double squared_error(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
  return sum;
}

// llama.cpp's Q4_0: one scale per 32 weights, max / −8 rounded to FP16, q = ⌊w / d + 8.5⌋ − 8 up to 7.
std::vector<float> q4_0(std::span<const float> weights) {
  std::vector<float> result;
  for (std::size_t begin = 0; begin < weights.size(); begin += 32) {
    float max = 0.0F;
    for (std::size_t k = begin; k < begin + 32; ++k)
      if (std::abs(weights[k]) > std::abs(max))
        max = weights[k];
    const float d = max / -8.0F; // FP16's rounding, 2⁻¹¹, is left out: to Q4_0's advantage
    for (std::size_t k = begin; k < begin + 32; ++k)
      result.push_back((std::min(15.0F, std::floor(weights[k] / d + 8.5F)) - 8.0F) * d);
  }
  return result;
}

} // namespace

TEST(quantize, int8_errs_by_half_a_step_at_most) {
  const auto w = random_floats(300, 1, 0.02F);
  std::vector<std::int8_t> q(w.size());
  const float scale = quantize_int8(w, q.data());
  int largest = 0;
  for (std::size_t k = 0; k < w.size(); ++k) {
    EXPECT_NEAR(static_cast<float>(q[k]) * scale, w[k], 0.5001F * scale);
    largest = std::max(largest, std::abs(q[k]));
  }
  EXPECT_EQ(largest, 127);
}

TEST(quantize, groups_of_int4_lose_less_than_q4_0) {
  const std::size_t k = 1024;
  double ours = 0.0;
  double theirs = 0.0;
  for (unsigned row = 0; row < 16; ++row) {
    const auto w = random_floats(k, 100 + row, 0.02F);
    const auto packed = packed_matrix::pack(packed_format::int4_group32, view_of(w.data(), 1, k));
    std::vector<float> back(k);
    packed.unpack_row(0, back);
    ours += squared_error(w, back);
    theirs += squared_error(w, q4_0(w));
  }
  EXPECT_LT(ours, 0.95 * theirs);
}

TEST(quantize, a_weight_that_dwarfs_its_channel_leaves_the_others_some_scale) {
  auto w = random_floats(1024, 3, 0.02F);
  w[700] = 0.4F;
  std::vector<std::int8_t> q(w.size());
  std::vector<std::int8_t> g(w.size() / 32);
  quantize_int4_groups(w, 32, q.data(), g.data());
  for (const std::int8_t scale : g)
    EXPECT_NE(scale, 0);
}

TEST(quantize, every_instruction_set_finds_the_same_integers) {
  for (const std::size_t k : {std::size_t{1}, std::size_t{35}, std::size_t{64}, std::size_t{1000}})
    for (unsigned seed = 0; seed < 20; ++seed) {
      auto w = random_floats(3 * k, 300 + seed, 0.02F);
      w[seed % w.size()] *= static_cast<float>(1U << seed); // from none to one that dwarfs the rest
      for (const packed_format format : quantized_formats) {
        const auto expected = packed_matrix::pack(format, view_of(w.data(), 3, k));
        for (const isa set : supported_isas()) {
          const auto got = packed_matrix::pack(format, view_of(w.data(), 3, k), set);
          ASSERT_TRUE(std::ranges::equal(got.bytes(), expected.bytes()))
              << name_of(format) << ", " << name_of(set) << ", k " << k << ", seed " << seed;
        }
      }
    }
}

TEST(quantize, zeros_stay_zeros_and_what_is_not_finite_is_refused) {
  const std::vector<float> zeros(70, 0.0F);
  std::vector<float> sick(70, 0.5F);
  sick[69] = std::nanf("");
  for (const packed_format format : quantized_formats) {
    const auto packed = packed_matrix::pack(format, view_of(zeros.data(), 2, 35));
    std::vector<float> back(35, poison);
    packed.unpack_row(1, back);
    EXPECT_EQ(back, std::vector<float>(35, 0.0F));
    try {
      packed_matrix::pack(format, view_of(sick.data(), 2, 35));
      ADD_FAILURE() << name_of(format);
    } catch (const kernel_error& error) {
      EXPECT_STREQ(error.what(), "quantizing weights: row 1, column 34 is not a finite number");
    }
  }
}

TEST(quantize, unpacked_rows_are_integers_times_scales) {
  const auto w = random_floats(50 * 70, 4, 0.1F);
  for (const packed_format format : quantized_formats) {
    const auto packed =
        packed_matrix::pack_gate_up(format, view_of(w.data(), 25, 70), view_of(w.data() + 25 * 70, 25, 70));
    for (std::size_t n = 0; n < 50; ++n) {
      const channel expected = quantize(format, std::span(w).subspan(n * 70, 70));
      std::vector<float> got(70);
      packed.unpack_row(n % 25, got, n / 25);
      for (std::size_t k = 0; k < 70; ++k)
        ASSERT_EQ(got[k], expected.integers[k] * expected.scale) << name_of(format) << ' ' << n << ' ' << k;
    }
  }
}

TEST(quantized_gemm, follows_the_documented_order_bit_by_bit) {
  for (const auto& shape : shapes) {
    const auto n = shape.n; // not a structured binding: clang++ 14 cannot capture one
    const auto k = shape.k;
    constexpr std::size_t rows = 101;
    const auto x = rounded(random_floats(rows * k, 1));
    const auto w = random_floats(n * k, 2, 0.1F);
    for (const packed_format format : quantized_formats)
      for (const row_quant mode : {row_quant::none, row_quant::int8}) {
        auto packed = packed_matrix::pack(format, view_of(w.data(), n, k));
        packed.set_rows(mode);
        std::vector<float> expected(rows * n);
        for (std::size_t c = 0; c < n; ++c) {
          const channel weights = quantize(format, std::span(w).subspan(c * k, k));
          const float_mode_guard guard;
          for (std::size_t r = 0; r < rows; ++r)
            expected[r * n + c] = mode == row_quant::none ? documented(x.data() + r * k, weights)
                                                          : documented_int8(x.data() + r * k, weights);
        }
        with_every_context([&](context& ctx) {
          for (const std::size_t m :
               {1UL, 2UL, 3UL, 4UL, 5UL, 6UL, 7UL, 8UL, 9UL, 17UL, 32UL, 37UL, 64UL, 65UL, rows}) {
            std::vector<float> y(m * n, poison);
            gemm(ctx,
                 {.input = view_of(x.data(), m, k), .weight = &packed, .output = view_of(y.data(), m, n)});
            EXPECT_TRUE(same_bits(std::span<const float>(y), std::span<const float>(expected).first(m * n)))
                << name_of(ctx.instruction_set()) << ' ' << name_of(format) << " rows "
                << (mode == row_quant::int8 ? "int8" : "bf16") << ", " << m << " rows, N " << n << ", K "
                << k;
          }
        });
      }
  }
}

TEST(quantized_gemm, is_a_product_with_the_unpacked_weights) {
  constexpr std::size_t rows = 9;
  constexpr std::size_t n = 40;
  constexpr std::size_t k = 200;
  const auto x = rounded(random_floats(rows * k, 3));
  const auto w = random_floats(n * k, 4);
  for (const packed_format format : quantized_formats)
    for (const row_quant mode : {row_quant::none, row_quant::int8}) {
      auto packed = packed_matrix::pack(format, view_of(w.data(), n, k));
      packed.set_rows(mode);
      with_every_context([&](context& ctx) {
        std::vector<float> y(rows * n, poison);
        gemm(ctx,
             {.input = view_of(x.data(), rows, k), .weight = &packed, .output = view_of(y.data(), rows, n)});
        std::vector<float> weights(k);
        for (std::size_t c = 0; c < n; ++c) {
          packed.unpack_row(c, weights);
          for (std::size_t r = 0; r < rows; ++r) {
            double sum = 0.0;
            double magnitude = 0.0;
            double largest = 0.0;
            for (std::size_t i = 0; i < k; ++i) {
              const double value = static_cast<double>(to_float(x[r * k + i]));
              sum += value * static_cast<double>(weights[i]);
              magnitude += std::abs(value * static_cast<double>(weights[i]));
              largest += std::abs(static_cast<double>(weights[i]));
            }
            // int8 rows err by half a step of 1 / 127 of the row's largest value, which is below 5 here.
            const double rows_error = mode == row_quant::int8 ? largest * 5.0 / 254.0 : 0.0;
            EXPECT_NEAR(static_cast<double>(y[r * n + c]), sum, magnitude * k * 0x1p-24 + rows_error);
          }
        }
      });
    }
}

// If sums of a few products are kept in 16 bits, these come closest to overflowing.
TEST(quantized_gemm, the_largest_integers_meet_without_overflow) {
  constexpr std::size_t n = 64;
  constexpr std::size_t k = 192;
  constexpr std::size_t rows = 9;
  const auto sign = [](std::size_t pattern, std::size_t i) {
    switch (pattern) {
    case 0:
      return 1.0F;
    case 1:
      return i % 8 < 4 ? 1.0F : -1.0F; // the two halves of int4's bytes
    case 2:
      return i % 4 < 2 ? 1.0F : -1.0F; // the two halves of a lane
    default:
      return i % 2 == 0 ? 1.0F : -1.0F;
    }
  };
  for (const packed_format format : quantized_formats)
    for (std::size_t weight_pattern = 0; weight_pattern < 4; ++weight_pattern) {
      std::vector<float> w(n * k);
      for (std::size_t c = 0; c < n; ++c)
        for (std::size_t i = 0; i < k; ++i)
          w[c * k + i] = (c % 2 == 0 ? 1.0F : -1.0F) * sign(weight_pattern, i);
      auto packed = packed_matrix::pack(format, view_of(w.data(), n, k));
      packed.set_rows(row_quant::int8);
      std::vector<bfloat16> x(rows * k);
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t i = 0; i < k; ++i)
          x[r * k + i] = to_bfloat16((r < 4 ? 1.0F : -1.0F) * sign(r % 4, i));
      std::vector<float> expected(rows * n);
      for (std::size_t c = 0; c < n; ++c) {
        const channel weights = quantize(format, std::span(w).subspan(c * k, k));
        for (std::size_t r = 0; r < rows; ++r)
          expected[r * n + c] = documented_int8(x.data() + r * k, weights);
      }
      with_every_context([&](context& ctx) {
        for (const std::size_t m : {1UL, 4UL, rows}) {
          std::vector<float> y(m * n, poison);
          gemm(ctx, {.input = view_of(x.data(), m, k), .weight = &packed, .output = view_of(y.data(), m, n)});
          EXPECT_TRUE(same_bits(std::span<const float>(y), std::span<const float>(expected).first(m * n)))
              << name_of(ctx.instruction_set()) << ' ' << name_of(format) << ", weights " << weight_pattern
              << ", " << m << " rows";
        }
      });
    }
}

TEST(quantized_gemm, a_sick_row_shows_and_zeros_stay_zeros) {
  const auto w = random_floats(20 * 64, 5);
  auto packed = packed_matrix::pack(packed_format::int8_channel, view_of(w.data(), 20, 64));
  packed.set_rows(row_quant::int8);
  for (const std::size_t rows : {3UL, 40UL}) {
    std::vector<float> x(rows * 64, 0.0F);
    x[0] = std::nanf("");
    x[64] = INFINITY;
    with_every_context([&](context& ctx) {
      std::vector<float> y(rows * 20, poison);
      gemm(ctx,
           {.input = view_of(x.data(), rows, 64), .weight = &packed, .output = view_of(y.data(), rows, 20)});
      for (std::size_t c = 0; c < 20; ++c) {
        EXPECT_TRUE(std::isnan(y[c]));
        EXPECT_TRUE(std::isnan(y[20 + c]));
        for (std::size_t r = 2; r < rows; ++r)
          EXPECT_EQ(y[r * 20 + c], 0.0F);
      }
    });
  }
}

TEST(quantized_experts, give_the_same_bits_everywhere_and_alone_as_in_company) {
  // Seven and five pairs of panels: some in runs, and a remainder.
  constexpr std::size_t hidden = 80;
  constexpr std::size_t ffn = 112;
  constexpr std::size_t rows = 85;
  const auto gate = random_floats(ffn * hidden, 1, 0.1F);
  const auto up = random_floats(ffn * hidden, 2, 0.1F);
  const auto down = random_floats(hidden * ffn, 3, 0.1F);
  const auto x = rounded(random_floats(rows * hidden, 4));
  for (const packed_format format : quantized_formats)
    for (const row_quant mode : {row_quant::none, row_quant::int8}) {
      expert_weights weights;
      weights.gate_up = packed_matrix::pack_gate_up(format, view_of(gate.data(), ffn, hidden),
                                                    view_of(up.data(), ffn, hidden));
      weights.down = packed_matrix::pack(format, view_of(down.data(), hidden, ffn));
      weights.gate_up.set_rows(mode);
      weights.down.set_rows(mode);
      const auto run = [&](context& ctx, std::size_t first, std::size_t count) {
        std::vector<bfloat16> out(count * hidden);
        std::vector<const std::byte*> inputs;
        std::vector<std::byte*> outputs;
        for (std::size_t r = 0; r < count; ++r) {
          inputs.push_back(reinterpret_cast<const std::byte*>(x.data() + (first + r) * hidden));
          outputs.push_back(reinterpret_cast<std::byte*>(out.data() + r * hidden));
        }
        const expert_segment segment{&weights, inputs, outputs};
        expert_ffn(ctx, {.segments = {&segment, 1}});
        return out;
      };
      reference_context reference;
      const auto expected = run(reference.ctx, 0, rows);
      EXPECT_TRUE(std::any_of(expected.begin(), expected.end(),
                              [](bfloat16 value) { return to_float(value) != 0.0F; }));
      with_every_context([&](context& ctx) {
        for (const std::size_t count : {1UL, 5UL, 20UL, 41UL, rows})
          EXPECT_TRUE(same_bits(std::span<const bfloat16>(run(ctx, rows - count, count)),
                                std::span<const bfloat16>(expected).subspan((rows - count) * hidden)))
              << name_of(ctx.instruction_set()) << ' ' << name_of(format) << ' ' << count << " rows";
      });
    }
}

} // namespace troupe::kernels
