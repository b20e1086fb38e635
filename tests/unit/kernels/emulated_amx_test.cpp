// What the kernels of AMX compute, on processors that have AVX-512 but no AMX. Of a matrix unit itself only
// its manual is in this.
#include <gtest/gtest.h>

#include "kernels/cpu/kernel_table.hpp"
#include "kernels/isa.hpp"
#include "kernels/self_test.hpp"

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

} // namespace troupe::kernels
