#include "kernels/isa.hpp"

#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/gemm.hpp"
#include "kernels/self_test.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

// A product that looks right and is wrong in the last bit of one value.
void wrong_direct(const panel_product& product) {
  cpu::portable_table.bf16_direct(product);
  float& value = product.c[4 * 16 + 3];
  if (product.rows == 5)
    value = std::nextafter(value, 1e30F);
}

void wrong_attention(const attention_block& block) {
  attention_block other = block;
  other.sinks = nullptr;
  cpu::portable_table.attention(other);
}

} // namespace

TEST(isa, names_are_found_again) {
  for (const isa set : {isa::portable, isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx})
    EXPECT_EQ(isa_from_name(name_of(set)), set);
  EXPECT_FALSE(isa_from_name("mmx").has_value());
}

TEST(isa, portable_is_always_there_and_the_best_is_detected) {
  EXPECT_EQ(supported_isas().front(), isa::portable);
  EXPECT_EQ(detect(), supported_isas().back());
  for (const isa set : {isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx})
    if (is_supported(set))
      EXPECT_EQ(table_of(set).set, set);
    else
      EXPECT_THROW(table_of(set), std::runtime_error) << name_of(set);
}

TEST(self_test, accepts_every_supported_set) {
  for (const isa set : supported_isas())
    EXPECT_EQ(self_test(set), std::nullopt) << name_of(set);
  const isa_selection selection = select_isa();
  EXPECT_EQ(selection.chosen, detect());
  EXPECT_TRUE(selection.refused.empty());
  EXPECT_EQ(select_isa(isa::portable).chosen, isa::portable);
  for (const isa set : {isa::avx2, isa::avx512, isa::avx512_bf16, isa::amx})
    if (is_supported(set))
      EXPECT_EQ(select_isa(set).chosen, set);
    else
      EXPECT_THROW(select_isa(set), std::runtime_error) << name_of(set);
}

TEST(self_test, refuses_a_matrix_unit_that_adds_in_another_order) {
  // Every other set's product through the way in of AMX, and one sum a bit off.
  kernel_table table = cpu::portable_table;
  table.pack_row_tiles = [](const std::byte* row, dtype type, std::size_t k, std::byte* out) {
    for (std::size_t i = 0; i < (k + 31) / 32 * 32; ++i) {
      const float value = i >= k                ? 0.0F
                          : type == dtype::bf16 ? to_float(reinterpret_cast<const bfloat16*>(row)[i])
                                                : reinterpret_cast<const float*>(row)[i];
      reinterpret_cast<bfloat16*>(out + i / 32 * 1024)[i % 32] = to_bfloat16(value);
    }
  };
  table.bf16_tiles = [](const tile_product& p) {
    for (std::size_t r = 0; r < p.rows; ++r)
      for (std::size_t i = 0; i < p.panels; ++i) {
        if (!p.accumulate)
          std::fill_n(p.c + i * p.c_stride + r * 16, 16, 0.0F);
        const std::byte* a = p.a + r / 16 * p.a_stride + r % 16 * 64;
        for (std::size_t b = 0; b < p.blocks; ++b, a += 1024) {
          float row[32];
          cpu::portable_table.pack_row_bf16(a, dtype::bf16, 32, row);
          cpu::portable_table.bf16_direct({.a = row,
                                           .a_stride = 32,
                                           .rows = 1,
                                           .panel = p.panel + i * p.panel_stride + b * 1024,
                                           .panels = 1,
                                           .blocks = 1,
                                           .c = p.c + i * p.c_stride + r * 16});
        }
      }
  };
  EXPECT_EQ(self_test(table), std::nullopt);
  static const auto right = table.bf16_tiles;
  table.bf16_tiles = [](const tile_product& p) {
    right(p);
    if (p.rows == 50)
      p.c[49 * 16] = std::nextafter(p.c[49 * 16], 1e30F);
  };
  EXPECT_EQ(self_test(table), "gemm in tiles f32, 50 rows, 1 panels");
}

TEST(self_test, refuses_a_wrong_kernel_and_names_it) {
  kernel_table table = table_of(detect());
  table.bf16_direct = wrong_direct;
  EXPECT_EQ(self_test(table), "gemm bf16 direct, 5 rows");
  table = table_of(detect());
  table.quant.int4_scale = [](const float* weights, std::size_t count, float max, float scale) {
    int4_group_scale best = cpu::portable_table.quant.int4_scale(weights, count, max, scale);
    best.scale = best.scale == 15 ? 14 : best.scale;
    return best;
  };
  EXPECT_EQ(self_test(table), "int4 scale of 32");
  table = table_of(detect());
  table.attention = wrong_attention;
  ASSERT_TRUE(self_test(table).has_value());
  EXPECT_TRUE(self_test(table)->starts_with("attention f32")) << *self_test(table);
}

TEST(self_test, refuses_a_kernel_that_writes_too_much) {
  kernel_table table = table_of(detect());
  table.sigmoid_row = [](const float* in, std::size_t count, float* out) {
    cpu::portable_table.sigmoid_row(in, count, out);
    out[count] = 0.0F;
  };
  EXPECT_EQ(self_test(table), "sigmoid, 7 values");
}

TEST(self_test, selection_falls_back_to_the_best_that_passes) {
  // Every op of every table is compared: a table whose ops are portable ones passes under any name.
  kernel_table table = cpu::portable_table;
  table.set = isa::avx512;
  EXPECT_EQ(self_test(table), std::nullopt);
  kernel_table broken = table_of(detect());
  broken.dot = [](const std::byte*, dtype, const float*, std::size_t) { return 0.0F; };
  const std::vector<const kernel_table*> good{&cpu::portable_table, &table_of(detect())};
  EXPECT_EQ(select_isa(good).chosen, detect());
  const std::vector<const kernel_table*> bad{&cpu::portable_table, &broken};
  const isa_selection selection = select_isa(bad);
  EXPECT_EQ(selection.chosen, isa::portable);
  ASSERT_EQ(selection.refused.size(), 1U);
  EXPECT_EQ(selection.refused[0].set, detect());
  EXPECT_TRUE(selection.refused[0].op.starts_with("dot")) << selection.refused[0].op;
}

} // namespace troupe::kernels
