#include "kernels/gemm.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

// Intel's TDPBF16PS for one column: the contract written with std::fma.
float documented_bf16(const bfloat16* x, const bfloat16* w, std::size_t k_count) {
  const auto at = [&](const bfloat16* row, std::size_t k) { return k < k_count ? to_float(row[k]) : 0.0F; };
  float c = 0.0F;
  for (std::size_t block = 0; block < k_count; block += 32) {
    float even = 0.0F;
    float odd = 0.0F;
    for (std::size_t k = block; k < block + 32; k += 2) {
      even = std::fma(at(x, k), at(w, k), even);
      odd = std::fma(at(x, k + 1), at(w, k + 1), odd);
    }
    c += even + odd;
  }
  return c;
}

float documented_f32(const float* x, const float* w, std::size_t k_count) {
  float c = 0.0F;
  for (std::size_t k = 0; k < k_count; ++k)
    c = std::fma(x[k], w[k], c);
  return c;
}

struct shape {
  std::size_t n;
  std::size_t k;
};

const std::vector<shape> shapes{{1, 1}, {16, 32}, {50, 70}, {130, 96}, {33, 300}, {20, 1000}, {700, 64}};

} // namespace

TEST(gemm, follows_the_documented_order_bit_by_bit) {
  for (const auto& shape : shapes) {
    const auto n = shape.n; // not a structured binding: clang++ 14 cannot capture one
    const auto k = shape.k;
    constexpr std::size_t rows = 70;
    const auto x = random_floats(rows * k, 1);
    const auto w = random_floats(n * k, 2, 0.1F);
    const auto x16 = rounded(x);
    const auto w16 = rounded(w);
    const auto plain = packed_matrix::pack(packed_format::f32_panel, view_of(w.data(), n, k));
    const auto pairs = packed_matrix::pack(packed_format::bf16_pair, view_of(w16.data(), n, k));
    std::vector<float> expected(rows * n);
    std::vector<float> expected16(rows * n);
    {
      const float_mode_guard mode;
      for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < n; ++c) {
          expected[r * n + c] = documented_f32(x.data() + r * k, w.data() + c * k, k);
          expected16[r * n + c] = documented_bf16(x16.data() + r * k, w16.data() + c * k, k);
        }
    }
    with_every_context([&](context& ctx) {
      for (const std::size_t m : {1UL, 2UL, 3UL, 4UL, 5UL, 6UL, 7UL, 12UL, 13UL, 37UL, 50UL, rows}) {
        std::vector<float> y(m * n, poison);
        gemm(ctx, {.input = view_of(x.data(), m, k), .weight = &plain, .output = view_of(y.data(), m, n)});
        EXPECT_TRUE(same_bits(std::span<const float>(y), std::span<const float>(expected).first(m * n)))
            << name_of(ctx.instruction_set()) << " f32 " << m << " rows, N " << n << ", K " << k;
        y.assign(m * n, poison);
        gemm(ctx, {.input = view_of(x16.data(), m, k), .weight = &pairs, .output = view_of(y.data(), m, n)});
        EXPECT_TRUE(same_bits(std::span<const float>(y), std::span<const float>(expected16).first(m * n)))
            << name_of(ctx.instruction_set()) << " bf16 " << m << " rows, N " << n << ", K " << k;
      }
    });
  }
}

TEST(gemm, is_a_product) {
  // Against double; the error of a sum of K products of standard normals stays below K · 2⁻²⁴ times Σ |x w|.
  constexpr std::size_t rows = 9;
  constexpr std::size_t n = 40;
  constexpr std::size_t k = 200;
  const auto x = rounded(random_floats(rows * k, 3));
  const auto w = rounded(random_floats(n * k, 4));
  const auto packed = packed_matrix::pack(packed_format::bf16_pair, view_of(w.data(), n, k));
  with_every_context([&](context& ctx) {
    std::vector<float> y(rows * n, poison);
    gemm(ctx, {.input = view_of(x.data(), rows, k), .weight = &packed, .output = view_of(y.data(), rows, n)});
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < n; ++c) {
        double sum = 0.0;
        double magnitude = 0.0;
        for (std::size_t i = 0; i < k; ++i) {
          const double product =
              static_cast<double>(to_float(x[r * k + i])) * static_cast<double>(to_float(w[c * k + i]));
          sum += product;
          magnitude += std::abs(product);
        }
        EXPECT_NEAR(static_cast<double>(y[r * n + c]), sum, magnitude * k * 0x1p-24);
      }
  });
}

TEST(gemm, a_row_does_not_depend_on_the_others) {
  constexpr std::size_t rows = 512;
  constexpr std::size_t n = 50;
  constexpr std::size_t k = 70;
  const auto x = rounded(random_floats(rows * k, 5));
  const auto w = rounded(random_floats(n * k, 6));
  const auto packed = packed_matrix::pack(packed_format::bf16_pair, view_of(w.data(), n, k));
  with_every_context([&](context& ctx) {
    std::vector<bfloat16> all(rows * n);
    gemm(ctx,
         {.input = view_of(x.data(), rows, k), .weight = &packed, .output = view_of(all.data(), rows, n)});
    for (const std::size_t count : {1UL, 3UL, 8UL, 17UL, 193UL})
      for (const std::size_t first : {0UL, 100UL, rows - count}) {
        std::vector<bfloat16> some(count * n);
        gemm(ctx, {.input = view_of(x.data() + first * k, count, k),
                   .weight = &packed,
                   .output = view_of(some.data(), count, n)});
        EXPECT_TRUE(same_bits(std::span<const bfloat16>(some),
                              std::span<const bfloat16>(all).subspan(first * n, count * n)))
            << count << " rows from " << first;
      }
  });
}

TEST(gemm, adds_bias_and_residual_and_rounds_once) {
  constexpr std::size_t rows = 3;
  constexpr std::size_t n = 21;
  constexpr std::size_t k = 40;
  const auto x = random_floats(rows * k, 7);
  const auto w = random_floats(n * k, 8);
  const auto bias = random_floats(n, 9);
  const auto residual = random_floats(rows * n, 10);
  const auto packed = packed_matrix::pack(packed_format::f32_panel, view_of(w.data(), n, k));
  with_every_context([&](context& ctx) {
    std::vector<float> plain(rows * n, poison);
    gemm(ctx,
         {.input = view_of(x.data(), rows, k), .weight = &packed, .output = view_of(plain.data(), rows, n)});
    std::vector<float> added = residual;
    gemm(ctx, {.input = view_of(x.data(), rows, k),
               .weight = &packed,
               .bias = bias.data(),
               .output = view_of(added.data(), rows, n),
               .mode = gemm_output::add});
    std::vector<float> scaled = residual;
    gemm(ctx, {.input = view_of(x.data(), rows, k),
               .weight = &packed,
               .bias = bias.data(),
               .output = view_of(scaled.data(), rows, n),
               .mode = gemm_output::add,
               .factor = 0.22F});
    std::vector<bfloat16> narrow(rows * n);
    gemm(ctx, {.input = view_of(x.data(), rows, k),
               .weight = &packed,
               .bias = bias.data(),
               .output = view_of(narrow.data(), rows, n)});
    for (std::size_t i = 0; i < rows * n; ++i) {
      EXPECT_EQ(added[i], residual[i] + (plain[i] + bias[i % n]));
      EXPECT_EQ(scaled[i], std::fma(0.22F, plain[i] + bias[i % n], residual[i]));
      EXPECT_EQ(narrow[i], to_bfloat16(plain[i] + bias[i % n]));
    }
  });
}

TEST(gemm, takes_bf16_rows_for_f32_weights) {
  const auto x = rounded(random_floats(5 * 40, 20));
  const auto wide_x = widened(x);
  const auto w = random_floats(19 * 40, 21);
  const auto packed = packed_matrix::pack(packed_format::f32_panel, view_of(w.data(), 19, 40));
  with_every_context([&](context& ctx) {
    std::vector<float> narrow(5 * 19, poison);
    std::vector<float> wide(5 * 19, poison);
    gemm(ctx,
         {.input = view_of(x.data(), 5, 40), .weight = &packed, .output = view_of(narrow.data(), 5, 19)});
    gemm(ctx,
         {.input = view_of(wide_x.data(), 5, 40), .weight = &packed, .output = view_of(wide.data(), 5, 19)});
    EXPECT_TRUE(same_bits(narrow, wide)) << name_of(ctx.instruction_set());
  });
}

TEST(gemm, rounds_f32_rows_for_bf16_weights) {
  const auto x = random_floats(5 * 40, 11);
  const auto x16 = rounded(x);
  const auto w = rounded(random_floats(24 * 40, 12));
  const auto packed = packed_matrix::pack(packed_format::bf16_pair, view_of(w.data(), 24, 40));
  with_every_context([&](context& ctx) {
    std::vector<float> a(5 * 24, poison);
    std::vector<float> b(5 * 24, poison);
    gemm(ctx, {.input = view_of(x.data(), 5, 40), .weight = &packed, .output = view_of(a.data(), 5, 24)});
    gemm(ctx, {.input = view_of(x16.data(), 5, 40), .weight = &packed, .output = view_of(b.data(), 5, 24)});
    EXPECT_TRUE(same_bits(a, b));
  });
}

TEST(gemm, takes_chosen_rows) {
  const auto x = random_floats(10 * 32, 13);
  const auto w = random_floats(20 * 32, 14);
  const auto packed = packed_matrix::pack(packed_format::f32_panel, view_of(w.data(), 20, 32));
  with_every_context([&](context& ctx) {
    std::vector<float> all(10 * 20, poison);
    gemm(ctx, {.input = view_of(x.data(), 10, 32), .weight = &packed, .output = view_of(all.data(), 10, 20)});
    const std::vector<std::uint32_t> chosen{9, 2, 2};
    std::vector<float> some(3 * 20, poison);
    gemm(ctx, {.input = view_of(x.data(), 10, 32),
               .weight = &packed,
               .output = view_of(some.data(), 3, 20),
               .input_rows = chosen});
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t c = 0; c < 20; ++c)
        EXPECT_EQ(some[i * 20 + c], all[chosen[i] * 20 + c]);
  });
}

TEST(gemm, leaves_everything_else_alone) {
  // Output rows with a stride: the columns between rows stay poisoned; without rows nothing is written.
  const auto x = random_floats(7 * 33, 15);
  const auto w = random_floats(19 * 33, 16);
  const auto packed = packed_matrix::pack(packed_format::f32_panel, view_of(w.data(), 19, 33));
  with_every_context([&](context& ctx) {
    std::vector<float> y(8 * 30, poison);
    tensor_view out = view_of(y.data(), 7, 19);
    out.row_stride = 30;
    gemm(ctx, {.input = view_of(x.data(), 7, 33), .weight = &packed, .output = out});
    for (std::size_t i = 0; i < y.size(); ++i)
      EXPECT_EQ(y[i] == poison, i / 30 == 7 || i % 30 >= 19) << i;
    std::vector<float> untouched(4, poison);
    gemm(ctx,
         {.input = view_of(x.data(), 0, 33), .weight = &packed, .output = view_of(untouched.data(), 0, 19)});
    EXPECT_EQ(untouched, std::vector<float>(4, poison));
  });
}

TEST(gemm, flushes_denormals_on_the_way_in_and_out) {
  std::vector<float> x(32, 1e-30F);
  x[0] = 1e-39F; // flushed to zero
  std::vector<float> w(16 * 32, 1e-30F);
  for (std::size_t c = 0; c < 16; ++c)
    w[c * 32] = 1e30F;
  const auto packed = packed_matrix::pack(packed_format::f32_panel, view_of(w.data(), 16, 32));
  with_every_context([&](context& ctx) {
    std::vector<float> y(16, poison);
    gemm(ctx, {.input = view_of(x.data(), 1, 32), .weight = &packed, .output = view_of(y.data(), 1, 16)});
    EXPECT_EQ(y, std::vector<float>(16, 0.0F));
  });
}

TEST(gemm_death, names_a_wrong_shape) {
  const auto x = random_floats(32, 17);
  const auto packed = packed_matrix::pack(packed_format::f32_panel, view_of(x.data(), 1, 32));
  reference_context reference;
  std::vector<float> y(1);
  EXPECT_DEATH(
      gemm(reference.ctx,
           {.input = view_of(x.data(), 1, 31), .weight = &packed, .output = view_of(y.data(), 1, 1)}),
      "gemm: input columns differ");
}

} // namespace troupe::kernels
