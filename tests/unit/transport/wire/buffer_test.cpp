#include "actors/transport/wire/buffer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <new>

namespace troupe {
namespace {

TEST(buffer_test, is_aligned_and_large_enough) {
  buffer_pool pool;
  for (const std::size_t size : {0UL, 1UL, 256UL, 257UL, 4096UL, 1'000'000UL}) {
    const auto x = pool.allocate(size);
    EXPECT_GE(x->capacity, size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x->data()) % 64, 0U);
    EXPECT_EQ(x->device, -1);
    EXPECT_EQ(x->kind, memory_kind::host);
  }
  pool.cache_limit(0);
}

TEST(buffer_test, is_used_again) {
  buffer_pool pool;
  auto x = pool.allocate(5000);
  const auto* where = x->data();
  EXPECT_EQ(pool.stats().live_bytes, 8192U);
  x = nullptr;
  EXPECT_EQ(pool.stats().live_bytes, 0U);
  EXPECT_EQ(pool.stats().cached_bytes, 8192U);
  EXPECT_EQ(pool.allocate(8000)->data(), where);
  EXPECT_EQ(pool.stats().allocations, 1U);
  pool.cache_limit(0);
}

TEST(buffer_test, caches_no_more_than_its_limit) {
  buffer_pool pool;
  pool.cache_limit(10'000);
  auto x = pool.allocate(8192);
  auto y = pool.allocate(8192);
  x = nullptr;
  y = nullptr;
  EXPECT_EQ(pool.stats().cached_bytes, 8192U);
  pool.cache_limit(0);
  EXPECT_EQ(pool.stats().cached_bytes, 0U);
}

TEST(buffer_test, refuses_sizes_no_memory_has) {
  buffer_pool pool;
  EXPECT_THROW(pool.allocate(SIZE_MAX), std::bad_alloc);
  EXPECT_THROW(pool.allocate((std::size_t{1} << 40) + 1), std::bad_alloc);
}

} // namespace
} // namespace troupe
