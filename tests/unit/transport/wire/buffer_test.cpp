#include "actors/transport/wire/buffer.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <new>

namespace troupe {
namespace {

TEST(buffer_test, is_aligned_and_large_enough) {
  buffer_pool pool;
  for (const std::size_t size : {0UL, 1UL, 256UL, 257UL, 4096UL, 1'000'000UL}) {
    const auto x = pool.allocate(size);
    EXPECT_GE(x->capacity, size);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(x->data()) % 64, 0U);
    EXPECT_EQ(x->kind(), memory_kind::host);
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

/// Memory that the pool treats as pinned, and how much of it is in use.
struct counted_memory {
  static inline std::size_t num_taken = 0;

  static void* take(std::size_t num_bytes) {
    ++num_taken;
    return std::aligned_alloc(64, num_bytes);
  }

  static void give_back(void* memory) noexcept {
    --num_taken;
    std::free(memory);
  }

  static constexpr memory_source source{memory_kind::host_pinned, take, give_back};
};

TEST(buffer_test, comes_from_the_memory_that_the_pool_was_told_to_take) {
  buffer_pool pool;
  auto before = pool.allocate(5000);
  auto waiting = pool.allocate(5000);
  waiting = nullptr;
  pool.take_from(counted_memory::source);
  EXPECT_EQ(pool.stats().cached_bytes, 0U) << "what waited is of the other kind";
  auto pinned = pool.allocate(5000);
  EXPECT_EQ(pinned->kind(), memory_kind::host_pinned);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(pinned->data()) % 64, 0U);
  EXPECT_EQ(before->kind(), memory_kind::host);
  EXPECT_EQ(counted_memory::num_taken, 1U);

  // One that was allocated before returns to its origin, and is not reused as pinned.
  before = nullptr;
  EXPECT_EQ(pool.stats().cached_bytes, 0U);
  const auto* where = pinned->data();
  pinned = nullptr;
  EXPECT_EQ(pool.stats().cached_bytes, 8192U);
  pinned = pool.allocate(8000);
  EXPECT_EQ(pinned->data(), where);
  EXPECT_EQ(pinned->kind(), memory_kind::host_pinned);

  pinned = nullptr;
  pool.cache_limit(0);
  EXPECT_EQ(counted_memory::num_taken, 0U);
}

TEST(buffer_test, is_refused_when_its_memory_has_run_out) {
  static constexpr memory_source nothing{
      memory_kind::host_pinned, [](std::size_t) -> void* { return nullptr; }, [](void*) noexcept { FAIL(); }};
  buffer_pool pool;
  pool.take_from(nothing);
  EXPECT_THROW(pool.allocate(100), std::bad_alloc);
  EXPECT_EQ(pool.stats().live_bytes, 0U);
}

} // namespace
} // namespace troupe
