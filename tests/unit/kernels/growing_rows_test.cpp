#include "kernels/growing_rows.hpp"

#include <cstdint>

#include <gtest/gtest.h>

namespace troupe::kernels {
namespace {

TEST(growing_rows, begin_at_cache_lines) {
  growing_rows storage;
  for (const std::size_t cols : {1UL, 17UL, 32000UL, 50257UL}) {
    storage.reserve(dtype::f32, 3, cols);
    const auto rows = storage.rows(3);
    for (std::size_t r = 0; r < 3; ++r)
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(rows.row(r)) % 64, 0U) << cols << " columns, row " << r;
  }
}

TEST(growing_rows, keep_their_memory_while_they_shrink) {
  growing_rows storage;
  storage.reserve(dtype::bf16, 8, 100);
  const std::byte* memory = storage.rows(8).data;
  storage.reserve(dtype::bf16, 3, 40);
  EXPECT_EQ(storage.rows(3).data, memory);
  EXPECT_EQ(storage.rows(3).rows, 3U);
  EXPECT_GE(storage.rows(3).cols, 40U);
  storage.reserve(dtype::bf16, 8, 100);
  EXPECT_EQ(storage.rows(8).data, memory);
}

TEST(growing_rows, grow_by_half_more_than_there_was) {
  growing_rows storage;
  storage.reserve(dtype::f32, 8, 16);
  storage.reserve(dtype::f32, 9, 16);
  const std::byte* memory = storage.rows(9).data;
  storage.reserve(dtype::f32, 12, 16);
  EXPECT_EQ(storage.rows(12).data, memory);
  storage.reserve(dtype::f32, 12, 32);
  EXPECT_GE(storage.rows(12).cols, 32U);
}

TEST(growing_rows, change_their_type) {
  growing_rows storage;
  storage.reserve(dtype::bf16, 4, 16);
  storage.reserve(dtype::f32, 2, 16);
  const auto rows = storage.rows(2);
  EXPECT_EQ(rows.type, dtype::f32);
  rows.row_as<float>(1)[15] = 1.0F; // within the new memory, which a sanitizer watches
  EXPECT_EQ(storage.rows(2).row_as<float>(1)[15], 1.0F);
}

} // namespace
} // namespace troupe::kernels
