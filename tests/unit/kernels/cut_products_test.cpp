#include "tests/unit/kernels/cut_products.hpp"

namespace troupe::kernels {

// Not for the portable kernels, which cut like AVX2's and AVX-512's, and are slow.
TEST(cut_products, rows_of_gemm_are_as_alone) {
  for (const isa set : supported_isas())
    if (set != isa::portable)
      expect_rows_as_alone_in_gemm(table_of(set));
}

TEST(cut_products, rows_of_expert_ffn_are_as_alone) {
  for (const isa set : supported_isas())
    if (set != isa::portable)
      expect_rows_as_alone_in_expert_ffn(table_of(set));
}

} // namespace troupe::kernels
