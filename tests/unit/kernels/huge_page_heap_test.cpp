#include "kernels/huge_page_heap.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::kernels {

namespace {

constexpr std::size_t kib = 1024;

bool all_are(const std::byte* data, std::size_t num_bytes, std::byte value) {
  return std::all_of(data, data + num_bytes, [&](std::byte b) { return b == value; });
}

// An allocated part, filled with a value of its own.
struct part {
  std::byte* data;
  std::size_t num_bytes;
  std::byte value;
};

} // namespace

TEST(huge_page_heap, deals_out_zeros_in_lines) {
  huge_page_heap heap;
  std::byte* first = heap.allocate(100);
  std::memset(first, 1, 100);
  std::byte* second = heap.allocate(100);
  EXPECT_EQ(second, first + 128);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 64, 0U);
  heap.release(first, 100);
  std::byte* again = heap.allocate(128);
  EXPECT_EQ(again, first);
  EXPECT_TRUE(all_are(again, 128, std::byte{0}));
  heap.release(again, 128);
  heap.release(second, 100);
}

TEST(huge_page_heap, joins_what_came_back_with_its_neighbours) {
  huge_page_heap heap;
  constexpr std::size_t quarter = huge_page_heap::region_bytes / 4;
  std::byte* parts[4];
  for (auto& p : parts)
    p = heap.allocate(quarter);
  EXPECT_EQ(heap.num_regions(), 1U);
  heap.release(parts[0], quarter);
  heap.release(parts[2], quarter);
  heap.release(parts[1], quarter); // between the two
  EXPECT_EQ(heap.allocate(3 * quarter), parts[0]);
  EXPECT_EQ(heap.num_regions(), 1U);
  heap.release(parts[0], 3 * quarter);
  heap.release(parts[3], quarter);
}

TEST(huge_page_heap, gives_back_regions_nobody_uses) {
  huge_page_heap heap;
  std::byte* whole = heap.allocate(huge_page_heap::region_bytes);
  std::byte* other = heap.allocate(kib);
  EXPECT_EQ(heap.num_regions(), 2U);
  heap.release(whole, huge_page_heap::region_bytes);
  EXPECT_EQ(heap.num_regions(), 1U);
  heap.release(other, kib);
  EXPECT_EQ(heap.num_regions(), 0U);
}

TEST(huge_page_heap, parts_of_several_threads_do_not_overlap) {
  huge_page_heap heap;
  const auto work = [&](unsigned seed) {
    std::mt19937 random(seed);
    std::vector<part> held;
    for (int i = 0; i < 300; ++i) {
      if (held.size() > 20 || (!held.empty() && random() % 3 == 0)) {
        std::swap(held[random() % held.size()], held.back());
        EXPECT_TRUE(all_are(held.back().data, held.back().num_bytes, held.back().value)) << "seed " << seed;
        heap.release(held.back().data, held.back().num_bytes);
        held.pop_back();
      } else {
        const std::size_t num_bytes = 1 + random() % (512 * kib);
        part p{heap.allocate(num_bytes), num_bytes, static_cast<std::byte>(1 + random() % 255)};
        EXPECT_TRUE(all_are(p.data, num_bytes, std::byte{0})) << "seed " << seed;
        std::fill_n(p.data, num_bytes, p.value);
        held.push_back(p);
      }
    }
    for (const part& p : held)
      heap.release(p.data, p.num_bytes);
  };
  {
    std::jthread one(work, 1);
    std::jthread two(work, 2);
  }
  EXPECT_EQ(heap.num_regions(), 0U);
}

} // namespace troupe::kernels
