#include "kernels/coded_bf16.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/expert_ffn.hpp"
#include "kernels/gemm.hpp"
#include "kernels/packed_matrix.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

constexpr bfloat16 not_a_number{0x7fc1};
constexpr bfloat16 minus_infinity{0xff80};
constexpr bfloat16 denormal{0x8001};

packed_matrix packed(const std::vector<bfloat16>& weights, std::size_t n, std::size_t k) {
  return packed_matrix::pack(packed_format::bf16_pair, view_of(weights.data(), n, k));
}

bfloat16 pair_at(const packed_matrix& plain, std::size_t panel, std::size_t k, std::size_t column) {
  return reinterpret_cast<const bfloat16*>(plain.panel(panel))[(k / 2 * 16 + column) * 2 + k % 2];
}

std::size_t blocks_of(const packed_matrix& weights) {
  return weights.shape().padded_inputs() / 32;
}

std::size_t num_exceptions(const packed_matrix& coded, std::size_t panel) {
  const auto* exception = exceptions_from(coded.panel(panel), 0);
  std::size_t count = 0;
  while (exception[count] != no_exception)
    ++count;
  return count;
}

void expect_same_weights(const packed_matrix& plain) {
  const auto coded = packed_matrix::code(plain);
  ASSERT_TRUE(coded.has_value());
  EXPECT_EQ(coded->format(), packed_format::bf16_coded);
  const std::size_t blocks = blocks_of(plain);
  for (std::size_t panel = 0; panel < plain.shape().panels(); ++panel) {
    EXPECT_TRUE(has_valid_exceptions(coded->panel(panel), blocks));
    for (std::size_t k = 0; k < plain.shape().padded_inputs(); ++k)
      for (std::size_t column = 0; column < 16; ++column)
        ASSERT_EQ(decoded(coded->panel(panel), blocks, k, column), pair_at(plain, panel, k, column))
            << "panel " << panel << ", k " << k << ", column " << column;
    for (const isa set : supported_isas())
      for (std::size_t first = 0; first < blocks; ++first) {
        std::vector<std::byte> pairs((blocks - first) * 1024);
        table_of(set).decode_bf16(coded->panel(panel), blocks, first, blocks - first, pairs.data());
        EXPECT_TRUE(same_bits(std::span<const std::byte>(pairs),
                              std::span(plain.panel(panel) + first * 1024, pairs.size())))
            << name_of(set) << " from block " << first;
      }
  }
}

} // namespace

TEST(coded_bf16, keeps_every_bit) {
  for (const std::size_t n : {1UL, 16UL, 40UL})
    for (const std::size_t k : {1UL, 32UL, 70UL, 1000UL}) {
      auto weights = rounded(random_floats(n * k, static_cast<unsigned>(n + k), 0.02F));
      expect_same_weights(packed(weights, n, k));
      weights.front() = not_a_number;
      weights.back() = minus_infinity;
      weights[weights.size() / 2] = denormal;
      expect_same_weights(packed(weights, n, k));
    }
}

TEST(coded_bf16, takes_three_quarters_and_a_little_more) {
  const auto plain = packed(rounded(random_floats(64 * 1024, 1)), 64, 1024);
  const auto coded = packed_matrix::code(plain);
  ASSERT_TRUE(coded.has_value());
  EXPECT_EQ(coded->bytes().size(), 4U * (64 + 32 * 4 + 32 * 768));
  EXPECT_LT(coded->bytes().size() * 100, plain.bytes().size() * 76);
}

TEST(coded_bf16, lists_the_weights_of_rare_exponents_in_order) {
  // 16 exponents are frequent: those of ±1, ±2, … ±2¹⁵.
  std::vector<bfloat16> weights(16 * 64);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = to_bfloat16(std::ldexp(i % 3 == 0 ? -1.5F : 1.0F, static_cast<int>(i % 16)));
  const auto plain_count = num_exceptions(*packed_matrix::code(packed(weights, 16, 64)), 0);
  EXPECT_EQ(plain_count, 0U);
  const auto at = [&](std::size_t column, std::size_t k) -> bfloat16& { return weights[column * 64 + k]; };
  at(3, 40) = to_bfloat16(0x1p-60F);
  at(15, 31) = to_bfloat16(-0x1.8p70F);
  at(0, 40) = to_bfloat16(0x1p60F);
  const auto coded = packed_matrix::code(packed(weights, 16, 64));
  ASSERT_TRUE(coded.has_value());
  ASSERT_EQ(num_exceptions(*coded, 0), 3U);
  const auto* exceptions = exceptions_from(coded->panel(0), 0);
  EXPECT_EQ(exceptions[0], (31U * 16 + 15) << 8 | (127 + 70));
  EXPECT_EQ(exceptions[1], (40U * 16 + 0) << 8 | (127 + 60));
  EXPECT_EQ(exceptions[2], (40U * 16 + 3) << 8 | (127 - 60));
  EXPECT_EQ(exceptions_from(coded->panel(0), 1), exceptions + 1);
  EXPECT_EQ(block_of(exceptions[0]), 0U);
  EXPECT_EQ(block_of(exceptions[1]), 1U);
}

TEST(coded_bf16, as_many_exceptions_as_fit_and_no_more) {
  // A panel of 32 of K lists 15.
  for (const std::size_t count : {15UL, 16UL}) {
    std::vector<bfloat16> weights(16 * 32, bfloat16{0x3f80});
    for (std::size_t i = 0; i < 15 + count;
         ++i) // one of these exponents more often than its 15 + count others
      weights[i].bits = static_cast<std::uint16_t>((1 + i) << 7);
    const auto coded = packed_matrix::code(packed(weights, 16, 32));
    EXPECT_EQ(coded.has_value(), count == 15);
    if (coded)
      EXPECT_EQ(num_exceptions(*coded, 0), 15U);
  }
}

TEST(coded_bf16, exceptions_that_make_no_sense_are_told) {
  const std::size_t blocks = 2;
  std::vector<bfloat16> weights(16 * 64); // of 16 exponents, and two more
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = to_bfloat16(std::ldexp(1.0F, static_cast<int>(i % 16)));
  weights[5] = minus_infinity;
  weights[900] = denormal;
  const auto coded = packed_matrix::code(packed(weights, 16, 64));
  ASSERT_TRUE(coded.has_value());
  std::vector<std::byte> panel(coded->panel(0), coded->panel(0) + coded->shape().panel_bytes());
  auto* exceptions = reinterpret_cast<std::uint32_t*>(panel.data() + exponent_table_bytes);
  ASSERT_EQ(num_exceptions(*coded, 0), 2U);
  EXPECT_TRUE(has_valid_exceptions(panel.data(), blocks));
  const auto with = [&](std::size_t i, std::uint32_t value) {
    const std::uint32_t before = exceptions[i];
    exceptions[i] = value;
    const bool valid = has_valid_exceptions(panel.data(), blocks);
    exceptions[i] = before;
    return valid;
  };
  EXPECT_FALSE(with(1, exceptions[0]));                        // twice
  EXPECT_FALSE(with(0, 64U * 16 << 8));                        // behind the panel
  EXPECT_FALSE(with(15, (64U * 16 - 1) << 8));                 // behind the end of the list
  std::fill(exceptions, exceptions + 16, (64U * 16 - 1) << 8); // no end
  EXPECT_FALSE(has_valid_exceptions(panel.data(), blocks));
}

TEST(coded_bf16, products_have_the_bits_of_plain_weights) {
  for (const std::size_t k : {40UL, 96UL, 1000UL})
    for (const std::size_t n : {16UL, 130UL, 700UL}) {
      constexpr std::size_t rows = 130; // more than one part of them
      auto w = rounded(random_floats(n * k, static_cast<unsigned>(n), 0.1F));
      w[n * k / 3] = to_bfloat16(3e20F);
      w[n * k / 2] = to_bfloat16(-1e-20F);
      w[n * k - 1] = to_bfloat16(3e-30F);
      const auto plain = packed(w, n, k);
      const auto coded = packed_matrix::code(plain);
      ASSERT_TRUE(coded.has_value());
      const auto x = rounded(random_floats(rows * k, 2));
      with_every_context([&](context& ctx) {
        for (const std::size_t m :
             {1UL, 2UL, 3UL, 5UL, 12UL, 13UL, 16UL, 17UL, 33UL, 50UL, 70UL, 90UL, rows}) {
          std::vector<float> expected(m * n, poison);
          std::vector<float> y(m * n, poison);
          gemm(
              ctx,
              {.input = view_of(x.data(), m, k), .weight = &plain, .output = view_of(expected.data(), m, n)});
          gemm(ctx, {.input = view_of(x.data(), m, k), .weight = &*coded, .output = view_of(y.data(), m, n)});
          EXPECT_TRUE(same_bits(y, expected))
              << name_of(ctx.instruction_set()) << ", " << m << " rows, N " << n << ", K " << k;
        }
      });
    }
}

TEST(coded_bf16, experts_have_the_bits_of_plain_weights) {
  constexpr std::size_t hidden = 96;
  constexpr std::size_t ffn = 700;
  const auto g = random_floats(ffn * hidden, 1, 0.2F);
  const auto u = random_floats(ffn * hidden, 2, 0.2F);
  const auto d = random_floats(hidden * ffn, 3, 0.2F);
  expert_weights plain;
  plain.gate_up = packed_matrix::pack_gate_up(packed_format::bf16_pair, view_of(g.data(), ffn, hidden),
                                              view_of(u.data(), ffn, hidden));
  plain.down = packed_matrix::pack(packed_format::bf16_pair, view_of(d.data(), hidden, ffn));
  auto coded_gate_up = packed_matrix::code(plain.gate_up);
  auto coded_down = packed_matrix::code(plain.down);
  ASSERT_TRUE(coded_gate_up && coded_down);
  expert_weights coded;
  coded.gate_up = std::move(*coded_gate_up);
  coded.down = std::move(*coded_down);
  const auto x = rounded(random_floats(100 * hidden, 4));
  with_every_context([&](context& ctx) {
    for (const std::size_t m : {1UL, 2UL, 4UL, 12UL, 13UL, 40UL, 100UL}) {
      const auto run = [&](const expert_weights& weights) {
        std::vector<bfloat16> y(m * hidden);
        std::vector<const std::byte*> inputs;
        std::vector<std::byte*> outputs;
        for (std::size_t r = 0; r < m; ++r) {
          inputs.push_back(reinterpret_cast<const std::byte*>(x.data() + r * hidden));
          outputs.push_back(reinterpret_cast<std::byte*>(y.data() + r * hidden));
        }
        const expert_segment segment{&weights, inputs, outputs};
        expert_ffn(ctx, {{&segment, 1}, dtype::bf16});
        return y;
      };
      EXPECT_TRUE(same_bits(run(coded), run(plain)))
          << name_of(ctx.instruction_set()) << ", " << m << " rows";
    }
  });
}

} // namespace troupe::kernels
