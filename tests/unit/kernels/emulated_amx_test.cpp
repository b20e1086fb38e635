// The kernels of AMX, on processors with AVX-512 but without AMX. The matrix unit is emulated from its
// manual.
#include <gtest/gtest.h>

#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/isa.hpp"
#include "kernels/self_test.hpp"
#include "tests/unit/kernels/planned_products.hpp"

namespace troupe::kernels {

namespace cpu {

const kernel_table& emulated_amx_table();

} // namespace cpu

TEST(emulated_amx, gives_the_bits_of_the_portable_reference) {
  if (!is_supported(isa::avx512_bf16))
    GTEST_SKIP() << "no AVX-512 with BF16 here";
  const kernel_table& table = cpu::emulated_amx_table();
  ASSERT_NE(table.bf16_tiles, nullptr);
  EXPECT_EQ(self_test(table), std::nullopt);
}

TEST(emulated_amx, rows_of_gemm_are_as_alone) {
  if (!is_supported(isa::avx512_bf16))
    GTEST_SKIP() << "no AVX-512 with BF16 here";
  expect_rows_as_alone_in_gemm(cpu::emulated_amx_table());
}

TEST(emulated_amx, rows_of_expert_ffn_are_as_alone) {
  if (!is_supported(isa::avx512_bf16))
    GTEST_SKIP() << "no AVX-512 with BF16 here";
  expect_rows_as_alone_in_expert_ffn(cpu::emulated_amx_table());
}

TEST(emulated_amx, a_plan_changes_no_bit) {
  if (!is_supported(isa::avx512_bf16))
    GTEST_SKIP() << "no AVX-512 with BF16 here";
  expect_same_under_drawn_plans(cpu::emulated_amx_table(),
                                {&table_of(isa::avx512), &table_of(isa::avx512_bf16)}, 4);
}

} // namespace troupe::kernels
