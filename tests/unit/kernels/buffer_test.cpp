#include "kernels/buffer.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <utility>
#include <vector>

#include <unistd.h>

#include <gtest/gtest.h>

#include "kernels/huge_page_heap.hpp"

namespace troupe::kernels {

namespace {

constexpr std::size_t kib = 1024;
constexpr std::size_t mib = 1024 * kib;

// Resident memory of this process.
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t mapped = 0;
  std::size_t resident = 0;
  statm >> mapped >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Under the address sanitizer, which must detect accesses beyond each buffer.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool has_memory_of_its_own = true;
#elif defined(__has_feature)
#  if __has_feature(address_sanitizer)
constexpr bool has_memory_of_its_own = true;
#  else
constexpr bool has_memory_of_its_own = false;
#  endif
#else
constexpr bool has_memory_of_its_own = false;
#endif

} // namespace

TEST(buffer, is_zero_and_its_own_whatever_its_size) {
  std::vector<buffer> buffers;
  for (const std::size_t size : {std::size_t{1}, 64 * kib - 1, 64 * kib, 2 * mib - 64, 2 * mib, 2 * mib + 1,
                                 3 * mib, 4 * mib - 64 * kib, 31 * mib, 32 * mib - 1, 33 * mib + 7})
    for (int again = 0; again < 2; ++again) {
      buffer fresh(size);
      EXPECT_EQ(fresh.size(), size);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(fresh.data()) % 64, 0U);
      EXPECT_TRUE(std::all_of(fresh.bytes().begin(), fresh.bytes().end(), [](std::byte b) {
        return b == std::byte{0};
      })) << size;
      std::fill(fresh.bytes().begin(), fresh.bytes().end(), static_cast<std::byte>(buffers.size() + 1));
      buffers.push_back(std::move(fresh));
    }
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::byte own{static_cast<unsigned char>(i + 1)};
    EXPECT_TRUE(std::all_of(buffers[i].bytes().begin(), buffers[i].bytes().end(), [&](std::byte b) {
      return b == own;
    })) << buffers[i].size();
  }
}

// Alone, a matrix of 2 MiB and its scales would take 4 MiB in huge pages.
TEST(buffer, takes_little_more_memory_than_its_size) {
  if (has_memory_of_its_own)
    GTEST_SKIP() << "under the address sanitizer no buffer shares pages";
  constexpr std::size_t size = 2 * mib + 8 * kib;
  constexpr std::size_t count = 40;
  const std::size_t before = resident_bytes();
  std::vector<buffer> buffers;
  for (std::size_t i = 0; i < count; ++i) {
    buffers.emplace_back(size);
    std::fill(buffers.back().bytes().begin(), buffers.back().bytes().end(), std::byte{1});
  }
  EXPECT_LT(resident_bytes() - before, count * size * 21 / 20 + 4 * mib);
}

// One that almost fills a page is no exception.
TEST(buffer, lies_in_huge_pages_from_64_kib_on) {
  if (has_memory_of_its_own)
    GTEST_SKIP() << "under the address sanitizer no buffer shares pages";
  const auto regions = [] { return huge_page_heap::instance().num_regions(); };
  for (const std::size_t size : {64 * kib, mib, 2 * mib - 64 * kib, 2 * mib - 64}) {
    ASSERT_EQ(regions(), 0U);
    const buffer one(size);
    EXPECT_EQ(regions(), 1U) << size;
  }
  for (const std::size_t size : {std::size_t{1}, 64 * kib - 64, 2 * mib, 33 * mib}) {
    const buffer one(size);
    EXPECT_EQ(regions(), 0U) << size << ": in lines, or in pages of its own";
  }
}

} // namespace troupe::kernels
