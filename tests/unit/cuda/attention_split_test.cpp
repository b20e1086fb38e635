#include <gtest/gtest.h>

#include "kernels/cuda/attention.hpp"

namespace troupe::kernels::cuda {

TEST(attention_splits, long_rows_are_split_until_they_fill_the_device) {
  EXPECT_EQ(split_keys_for(64, 8, 8191, 132), 8192U) << "512 blocks, and 528 would be full: one split";
  EXPECT_EQ(split_keys_for(1, 8, 8191, 132), 128U) << "66 splits of 125 keys, rounded up to 64s";
  EXPECT_EQ(split_keys_for(1, 8, 10, 132), split_granule);
  EXPECT_EQ(split_keys_for(0, 8, 10, 132), split_granule);
}

TEST(attention_splits, every_key_lies_in_a_split) {
  EXPECT_EQ(splits_of(0, 64), 1U);
  EXPECT_EQ(splits_of(63, 64), 1U);
  EXPECT_EQ(splits_of(64, 64), 2U);
  for (std::size_t last = 0; last < 3000; last += 97)
    for (const std::size_t rows : {1U, 5U, 70U}) {
      const std::size_t keys = split_keys_for(rows, 2, last, 132);
      EXPECT_EQ(keys % split_granule, 0U);
      EXPECT_GE(splits_of(last, keys) * keys, last + 1);
    }
}

} // namespace troupe::kernels::cuda
