// Products of int8 rows with quantized weights at the longest K that their 32-bit sums hold.
#include "kernels/gemm.hpp"

#include <gtest/gtest.h>

#include "tests/unit/kernels/test_data.hpp"

namespace troupe::kernels {

namespace {

float sum_at_the_limit(context& ctx, packed_format format, float sign) {
  const std::size_t k = most_inputs_of_int8_rows(format);
  const std::vector<float> x(k, 1.0F); // 127 each
  const std::vector<float> w(k, sign); // as large as the format has integers
  auto packed = packed_matrix::pack(format, view_of(w.data(), 1, k), ctx.instruction_set());
  packed.set_rows(row_quant::int8);
  std::vector<float> y(1, poison);
  gemm(ctx, {.input = view_of(x.data(), 1, k), .weight = &packed, .output = view_of(y.data(), 1, 1)});
  return y[0] / static_cast<float>(k);
}

} // namespace

TEST(integer_sums, hold_the_largest_products_up_to_the_longest_row) {
  EXPECT_EQ(most_inputs_of_int8_rows(packed_format::int8_channel), 133'144U);
  EXPECT_EQ(most_inputs_of_int8_rows(packed_format::int4_group32), 140'911U);
  EXPECT_EQ(most_inputs_of_int8_rows(packed_format::int4_group64), 140'911U);
  EXPECT_EQ(most_inputs_of_int8_rows(packed_format::int4_channel), 2'113'665U);
  thread_pool pool({.threads = 1});
  for (const isa set : supported_isas()) {
    context ctx(pool, set);
    for (const auto format :
         {packed_format::int8_channel, packed_format::int4_group32, packed_format::int4_group64})
      for (const float sign : {1.0F, -1.0F})
        EXPECT_FLOAT_EQ(sum_at_the_limit(ctx, format, sign), sign) << name_of(set) << ", " << name_of(format);
    // Fifteen times as long: one of them will do.
    EXPECT_FLOAT_EQ(sum_at_the_limit(ctx, packed_format::int4_channel, 1.0F), 1.0F) << name_of(set);
  }
}

} // namespace troupe::kernels
