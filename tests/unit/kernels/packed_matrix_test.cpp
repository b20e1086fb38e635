#include "kernels/packed_matrix.hpp"

#include <cmath>
#include <tuple>

#include <gtest/gtest.h>

#include "kernels/error.hpp"
#include "kernels/quantize.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

TEST(packed_matrix, unpacks_what_was_packed) {
  for (const std::size_t n : {1UL, 15UL, 16UL, 33UL})
    for (const std::size_t k : {1UL, 31UL, 32UL, 70UL}) {
      const auto weights = random_floats(n * k, 1);
      const auto weights_bf16 = rounded(weights);
      const auto plain = packed_matrix::pack(packed_format::f32_panel, view_of(weights.data(), n, k));
      const auto pairs = packed_matrix::pack(packed_format::bf16_pair, view_of(weights_bf16.data(), n, k));
      const auto pairs_of_f32 = packed_matrix::pack(packed_format::bf16_pair, view_of(weights.data(), n, k));
      EXPECT_TRUE(same_bits(pairs.bytes(), pairs_of_f32.bytes()));
      std::vector<float> row(k);
      for (std::size_t i = 0; i < n; ++i) {
        plain.unpack_row(i, row);
        EXPECT_TRUE(same_bits(row, {weights.begin() + static_cast<long>(i * k),
                                    weights.begin() + static_cast<long>((i + 1) * k)}));
        pairs.unpack_row(i, row);
        for (std::size_t j = 0; j < k; ++j)
          EXPECT_EQ(row[j], to_float(weights_bf16[i * k + j]));
      }
    }
}

TEST(packed_matrix, lays_out_pairs_as_documented) {
  // N 17, K 33: two panels, K padded to 64.
  std::vector<float> weights(std::size_t{17} * 33);
  for (std::size_t i = 0; i < weights.size(); ++i)
    weights[i] = static_cast<float>(i % 127);
  const auto packed = packed_matrix::pack(packed_format::bf16_pair, view_of(weights.data(), 17, 33));
  EXPECT_EQ(packed.bytes().size(), 2U * 64 * 16 * 2);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(packed.bytes().data()) % 64, 0U);
  const auto* panel = reinterpret_cast<const bfloat16*>(packed.panel(0));
  EXPECT_EQ(to_float(panel[(3 * 16 + 5) * 2 + 1]), weights[5 * 33 + 7]); // k = 7, column 5
  EXPECT_EQ(to_float(panel[(16 * 16 + 5) * 2 + 1]), 0.0F);               // k = 33 is padding
  const auto* second = reinterpret_cast<const bfloat16*>(packed.panel(1));
  EXPECT_EQ(to_float(second[1]), weights[16 * 33 + 1]);
  EXPECT_EQ(to_float(second[2]), 0.0F); // column 17 does not exist
}

TEST(packed_matrix, lays_out_group_scales_as_documented) {
  // K 320: ten blocks of 32, so that the last line of scales has fewer groups than the others.
  constexpr std::size_t n = 20;
  constexpr std::size_t k_count = 320;
  const auto weights = random_floats(n * k_count, 4);

  struct expected {
    packed_format format;
    std::size_t group;
    std::vector<std::size_t> lines; // where lines of scales lie in a panel
    std::size_t panel_bytes;
  };

  constexpr std::size_t line = 64;
  constexpr std::size_t block = 256;
  const expected all[] = {
      {packed_format::int4_group32,
       32,
       {0, line + 4 * block, 2 * (line + 4 * block)},
       10 * block + 3 * line + line},
      {packed_format::int4_group64, 64, {0, line + 8 * block}, 10 * block + 2 * line + line}};
  for (const auto& [format, group, lines, panel_bytes] : all) {
    const auto packed = packed_matrix::pack(format, view_of(weights.data(), n, k_count));
    ASSERT_EQ(packed.bytes().size(), 2 * panel_bytes);
    for (const std::size_t output : {0UL, 7UL, 19UL}) {
      std::vector<std::int8_t> q(k_count);
      std::vector<std::int8_t> g(k_count / group);
      const float scale =
          quantize_int4_groups({weights.data() + output * k_count, k_count}, group, q.data(), g.data());
      const std::byte* panel = packed.panel(output / 16);
      const std::size_t column = output % 16;
      for (std::size_t k = 0; k < k_count; ++k) {
        const std::byte* scales = panel + lines[k / (4 * group)];
        EXPECT_EQ(static_cast<std::int8_t>(scales[k / group % 4 * 16 + column]), g[k / group]);
        const auto pair = std::to_integer<int>(scales[line + k % (4 * group) / 8 * 64 + column * 4 + k % 4]);
        EXPECT_EQ((k % 8 < 4 ? pair & 15 : pair >> 4) - 8, q[k]);
      }
      EXPECT_EQ(reinterpret_cast<const float*>(panel + panel_bytes - 64)[column], scale);
    }
  }
}

TEST(packed_matrix, interleaves_gate_and_up) {
  const auto gate = random_floats(20 * 8, 2);
  const auto up = random_floats(20 * 8, 3);
  const auto packed = packed_matrix::pack_gate_up(packed_format::f32_panel, view_of(gate.data(), 20, 8),
                                                  view_of(up.data(), 20, 8));
  EXPECT_EQ(packed.shape().panels(), 4U);
  std::vector<float> row(8);
  packed.unpack_row(19, row, 1);
  EXPECT_TRUE(same_bits(row, {up.begin() + 19 * 8, up.end()}));
  packed.unpack_row(0, row, 0);
  EXPECT_TRUE(same_bits(row, {gate.begin(), gate.begin() + 8}));
}

TEST(packed_matrix, looks_at_memory_of_others) {
  const auto weights = random_floats(40 * 24, 4);
  const auto owned = packed_matrix::pack(packed_format::f32_panel, view_of(weights.data(), 40, 24));
  const auto view = packed_matrix::view(owned.shape(), owned.bytes());
  EXPECT_EQ(view.bytes().data(), owned.bytes().data());
  EXPECT_THROW(packed_matrix::view(owned.shape(), owned.bytes().first(64)), kernel_error);
  packed_shape one = owned.shape();
  one.outputs = 16;
  EXPECT_THROW(packed_matrix::view(one, owned.bytes().subspan(4, one.bytes())), kernel_error);
}

TEST(packed_matrix, refuses_what_it_cannot_pack) {
  const auto weights = random_floats(16 * 8, 5);
  const auto view = view_of(weights.data(), 16, 8);
  auto wrong = view;
  wrong.type = dtype::int8;
  EXPECT_THROW(packed_matrix::pack(packed_format::f32_panel, wrong), kernel_error);
  EXPECT_THROW(packed_matrix::pack_gate_up(packed_format::f32_panel, view, view.slice(0, 8)), kernel_error);
  EXPECT_THROW(packed_matrix::pack(packed_format::bf16_coded, view), kernel_error); // `code` does that
}

TEST(packed_matrix, takes_half_precision_checkpoints) {
  const std::vector<std::uint16_t> halves{0x3c00, 0xc000, 0x3555, 0x0001}; // 1, −2, ⅓, 2⁻²⁴
  const_tensor_view view{reinterpret_cast<const std::byte*>(halves.data()), dtype::f16, 1, 4, 4};
  const auto packed = packed_matrix::pack(packed_format::f32_panel, view);
  std::vector<float> row(4);
  packed.unpack_row(0, row);
  EXPECT_EQ(row, (std::vector<float>{1.0F, -2.0F, half_to_float(0x3555), 0x1p-24F}));
}

// Squares of errors would leave FP32's range, and no choice would be the best.
TEST(quantize, chooses_the_same_whatever_the_magnitude) {
  const auto weights = random_floats(200, 3);
  const auto quantized = [&](std::size_t group, int exponent) {
    std::vector<float> scaled(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i)
      scaled[i] = std::ldexp(weights[i], exponent);
    std::vector<std::int8_t> q(weights.size());
    std::vector<std::int8_t> g(7);
    const float scale = group == 0 ? quantize_int4(scaled, q.data())
                                   : quantize_int4_groups(scaled, group, q.data(), g.data());
    return std::tuple(std::ldexp(scale, -exponent), q, g);
  };
  for (const std::size_t group : {0UL, 32UL, 64UL}) {
    const auto expected = quantized(group, 0);
    EXPECT_NE(std::get<0>(expected), 0.0F);
    for (const int exponent : {-90, -70, -60, -45, -20, 20, 45, 60, 80, 120})
      EXPECT_EQ(quantized(group, exponent), expected) << "groups of " << group << ", 2^" << exponent;
  }
}

} // namespace troupe::kernels
