#include "actors/expert/expert_queue.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

using namespace std::chrono_literals;
using tickets = std::vector<expert_queue::ticket>;

constexpr auto start = expert_queue::time_point{} + 1h;

tickets take(expert_queue& queue, expert_queue::time_point now) {
  std::uint32_t layer = 0;
  return queue.next(now, layer);
}

TEST(expert_queue, merges_a_layer_and_serves_the_oldest_first) {
  expert_queue queue{3, {}};
  queue.add(1, 2, 4, start);
  queue.add(2, 0, 4, start + 1us);
  queue.add(3, 2, 4, start + 2us);
  std::uint32_t layer = 0;
  EXPECT_EQ(queue.next(start + 3us, layer), (tickets{1, 3}));
  EXPECT_EQ(layer, 2U);
  EXPECT_EQ(queue.queued_rows(), 4U);
  EXPECT_EQ(queue.next(start + 3us, layer), (tickets{2}));
  EXPECT_EQ(layer, 0U);
  EXPECT_TRUE(take(queue, start + 3us).empty());
}

TEST(expert_queue, a_busy_layer_does_not_starve_another) {
  expert_queue queue{2, {100, 4, 0us}};
  queue.add(1, 0, 4, start);
  queue.add(2, 1, 4, start + 1us);
  queue.add(3, 0, 4, start + 2us);
  EXPECT_EQ(take(queue, start + 3us), (tickets{1})) << "a step has at most 4 rows";
  queue.add(4, 0, 4, start + 3us);
  EXPECT_EQ(take(queue, start + 4us), (tickets{2}));
  EXPECT_EQ(take(queue, start + 4us), (tickets{3}));
  EXPECT_EQ(take(queue, start + 4us), (tickets{4}));
}

TEST(expert_queue, is_bounded) {
  expert_queue queue{1, {10, 8192, 0us}};
  EXPECT_TRUE(queue.add(1, 0, 6, start));
  EXPECT_FALSE(queue.add(2, 0, 5, start));
  EXPECT_TRUE(queue.add(3, 0, 4, start));
  EXPECT_EQ(queue.queued_rows(), 10U);
  EXPECT_EQ(take(queue, start), (tickets{1, 3}));
  EXPECT_TRUE(queue.add(4, 0, 11, start)) << "one batch may always wait, or a large one would never run";
  EXPECT_FALSE(queue.add(5, 0, 1, start));
}

TEST(expert_queue, a_batch_larger_than_a_step_runs_alone) {
  expert_queue queue{1, {100, 8, 0us}};
  queue.add(1, 0, 20, start);
  queue.add(2, 0, 1, start);
  EXPECT_EQ(take(queue, start), (tickets{1}));
  EXPECT_EQ(take(queue, start), (tickets{2}));
}

TEST(expert_queue, a_lone_batch_lingers_and_company_ends_it) {
  expert_queue queue{2, {100, 100, 50us}};
  queue.add(1, 0, 1, start);
  EXPECT_TRUE(take(queue, start + 49us).empty());
  EXPECT_EQ(queue.lingers_until(), start + 50us);
  queue.add(2, 1, 1, start + 10us);
  queue.add(3, 1, 1, start + 20us);
  EXPECT_EQ(take(queue, start + 20us), (tickets{2, 3}));
  EXPECT_EQ(take(queue, start + 50us), (tickets{1}));
  EXPECT_FALSE(queue.lingers_until());
}

} // namespace
} // namespace troupe
