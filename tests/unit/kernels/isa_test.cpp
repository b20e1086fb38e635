#include "kernels/isa.hpp"

#include <cmath>

#include <gtest/gtest.h>

#include "kernels/cpu/kernel_table.hpp"
#include "kernels/gemm.hpp"
#include "kernels/self_test.hpp"
#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

// A product that is right to the eye and wrong in the last bit of one value.
void wrong_direct(const float* a, std::size_t a_stride, std::size_t rows, const std::byte* panel,
                  std::size_t blocks, float* c, std::size_t c_stride) {
  cpu::portable_table.bf16_direct(a, a_stride, rows, panel, blocks, c, c_stride);
  if (rows == 5)
    c[4 * c_stride + 3] = std::nextafter(c[4 * c_stride + 3], 1e30F);
}

void wrong_attention(const attention_block& block) {
  attention_block other = block;
  other.sinks = nullptr;
  cpu::portable_table.attention(other);
}

} // namespace

TEST(isa, names_are_found_again) {
  for (const isa set : {isa::portable, isa::avx2, isa::avx512, isa::amx})
    EXPECT_EQ(isa_from_name(name_of(set)), set);
  EXPECT_FALSE(isa_from_name("mmx").has_value());
}

TEST(isa, portable_is_always_there_and_amx_is_not_yet) {
  EXPECT_EQ(supported_isas().front(), isa::portable);
  EXPECT_FALSE(is_supported(isa::amx));
  EXPECT_THROW(table_of(isa::amx), std::runtime_error);
  EXPECT_EQ(detect(), supported_isas().back());
}

TEST(self_test, accepts_every_supported_set) {
  for (const isa set : supported_isas())
    EXPECT_EQ(self_test(set), std::nullopt) << name_of(set);
  const isa_selection selection = select_isa();
  EXPECT_EQ(selection.chosen, detect());
  EXPECT_TRUE(selection.refused.empty());
  EXPECT_EQ(select_isa(isa::portable).chosen, isa::portable);
  EXPECT_THROW(select_isa(isa::amx), std::runtime_error);
}

TEST(self_test, refuses_a_wrong_kernel_and_names_it) {
  kernel_table table = table_of(detect());
  table.bf16_direct = wrong_direct;
  EXPECT_EQ(self_test(table), "gemm bf16 direct, 5 rows");
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
