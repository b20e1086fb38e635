// Events pass from one thread to another complete and in order; those without room are counted.
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "actors/timeline/event_ring.hpp"
#include "actors/timeline/ring_pool.hpp"

namespace troupe::timeline {
namespace {

event numbered(std::uint64_t number) {
  return {.kind = event_kind::micro_batch, .id = number};
}

std::vector<event> all_of(event_ring& ring) {
  std::vector<event> result;
  ring.drain(
      [&](std::span<const event> events) { result.insert(result.end(), events.begin(), events.end()); });
  return result;
}

TEST(event_ring, gives_events_in_their_order_also_around_its_end) {
  event_ring ring(4);
  std::uint64_t next = 0;
  std::uint64_t expected = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 3; ++i)
      EXPECT_TRUE(ring.push(numbered(next++)));
    for (const auto& found : all_of(ring))
      EXPECT_EQ(found.id, expected++);
  }
  EXPECT_EQ(expected, 15U);
}

TEST(event_ring, drops_and_counts_what_finds_no_room) {
  event_ring ring(4);
  for (std::uint64_t i = 0; i < 7; ++i)
    EXPECT_EQ(ring.push(numbered(i)), i < 4);
  EXPECT_EQ(all_of(ring).size(), 4U);
  EXPECT_EQ(ring.take_dropped(), 3U);
  EXPECT_EQ(ring.take_dropped(), 0U);
  EXPECT_TRUE(ring.push(numbered(8)));
}

TEST(event_ring, has_a_text_whole_or_not_at_all) {
  event_ring ring(4);
  ASSERT_TRUE(ring.push(numbered(1)));
  ASSERT_TRUE(ring.push(numbered(2)));
  const std::string text(sizeof(event) + 1, 'x'); // two records beside the event
  EXPECT_FALSE(ring.push(numbered(3), text));
  all_of(ring);
  ASSERT_TRUE(ring.push(numbered(4), text));
  const auto found = all_of(ring);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].text_parts, 2U);
  EXPECT_EQ(found[0].text_bytes, text.size());
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(&found[1]), sizeof(event)),
            text.substr(0, sizeof(event)));
}

TEST(event_ring, cuts_a_text_that_is_too_long) {
  event_ring ring(16);
  ASSERT_TRUE(ring.push(numbered(1), std::string(10000, 'x')));
  EXPECT_EQ(all_of(ring)[0].text_bytes, max_text_bytes);
}

TEST(event_ring, loses_nothing_between_two_threads_that_it_does_not_count) {
  event_ring ring(64);
  constexpr std::uint64_t count = 20000;
  std::thread writer([&ring] {
    for (std::uint64_t i = 1; i <= count; ++i)
      ring.push(numbered(i));
  });
  std::uint64_t seen = 0;
  std::uint64_t dropped = 0;
  std::uint64_t last = 0;
  const auto read = [&] {
    for (const auto& found : all_of(ring)) {
      EXPECT_GT(found.id, last);
      last = found.id;
      ++seen;
    }
    dropped += ring.take_dropped();
  };
  while (last < count && seen + dropped < count)
    read();
  writer.join();
  read();
  EXPECT_EQ(seen + dropped, count);
}

TEST(ring_pool, lends_a_ring_again_once_it_has_been_read) {
  ring_pool pool(1, 16);
  std::thread first([&pool] {
    auto* ring = pool.take();
    ASSERT_NE(ring, nullptr);
    ring->ring.push(numbered(1));
    EXPECT_EQ(pool.take(), nullptr); // there is no other
    ring_pool::give_back(*ring);
  });
  first.join();
  EXPECT_EQ(pool.take(), nullptr); // its events wait
  std::vector<std::pair<std::uint32_t, std::uint64_t>> found;
  const auto read = [&] {
    return pool.drain([&](const ring_pool::thread_id& thread, std::span<const event> events) {
      for (const auto& e : events)
        found.emplace_back(thread.number, e.id);
    });
  };
  pool.count_dropped();
  EXPECT_EQ(read(), 1U);
  auto* again = pool.take();
  ASSERT_NE(again, nullptr);
  again->ring.push(numbered(2));
  EXPECT_EQ(read(), 0U);
  EXPECT_EQ(found, (std::vector<std::pair<std::uint32_t, std::uint64_t>>{{1, 1}, {2, 2}}));
}

} // namespace
} // namespace troupe::timeline
