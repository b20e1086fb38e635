// The thread of a step: the queue's own, or a borrowed one.
#include "actors/engine/compute_queue.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <system_error>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "actors/transport/caf/follow_up.hpp"
#include "kernels/isa.hpp"
#include "tests/unit/actors/told.hpp"

namespace troupe {
namespace {

using thread_id = std::thread::id;

class compute_queue_test : public ::testing::Test {
 protected:
  /// Submits a step that reports its thread.
  told<thread_id> submit() {
    told<thread_id> where;
    queue_.submit([where] { where.set(std::this_thread::get_id()); });
    return where;
  }

  /// Does the work left to this thread.
  /// @returns whether there was any
  static bool follow(follow_up& left) {
    const auto work = left.take();
    if (!work)
      return false;
    work();
    return true;
  }

  compute_queue queue_{1, kernels::isa::portable};
};

bool flushes_denormals() {
  volatile float small = std::numeric_limits<float>::denorm_min();
  return small * 1.0F == 0.0F;
}

TEST_F(compute_queue_test, without_one_that_lends_itself_its_own_thread_computes) {
  EXPECT_NE(submit().get(), std::this_thread::get_id());
}

TEST_F(compute_queue_test, an_idle_queue_borrows_the_thread) {
  // The first step: a busy machine may prolong one, and then the next is not borrowed.
  follow_up left;
  const auto where = submit();
  ASSERT_TRUE(follow(left));
  EXPECT_EQ(where.get(), std::this_thread::get_id());
}

TEST_F(compute_queue_test, it_borrows_a_thread_for_one_step_and_the_next_waits_for_that) {
  follow_up left;
  std::vector<int> order;
  queue_.submit([&] { order.push_back(1); });
  const told<thread_id> second;
  queue_.submit([&, second] {
    order.push_back(2);
    second.set(std::this_thread::get_id());
  });
  EXPECT_TRUE(order.empty());
  ASSERT_TRUE(follow(left));
  EXPECT_FALSE(follow(left));
  EXPECT_NE(second.get(), std::this_thread::get_id());
  EXPECT_EQ(order, (std::vector{1, 2}));
}

TEST_F(compute_queue_test, a_busy_queue_borrows_none) {
  const told<bool> goes_on;
  const told<bool> begun;
  queue_.submit([=] {
    begun.set(true);
    goes_on.get();
  });
  begun.get();
  follow_up left;
  const auto where = submit();
  EXPECT_FALSE(follow(left));
  goes_on.set(true);
  EXPECT_NE(where.get(), std::this_thread::get_id());
}

TEST_F(compute_queue_test, after_a_long_step_it_borrows_none_until_one_was_short) {
  follow_up left;
  queue_.submit([] {
    const auto end = std::chrono::steady_clock::now() + 2 * compute_queue::longest_borrowed;
    while (std::chrono::steady_clock::now() < end) {
    }
  });
  ASSERT_TRUE(follow(left));
  const auto where = submit();
  EXPECT_FALSE(follow(left));
  EXPECT_NE(where.get(), std::this_thread::get_id());
  // That was a short one. The queue notices it a moment after the step has reported, so this is repeated;
  // each step is awaited, so at most one waits.
  bool borrowed = false;
  for (int tries = 0; tries < 1000 && !borrowed; ++tries) {
    const auto again = submit();
    borrowed = follow(left);
    again.get();
  }
  EXPECT_TRUE(borrowed);
}

TEST_F(compute_queue_test, steps_run_in_their_order_whichever_thread_has_them) {
  for (int round = 0; round < 300; ++round) {
    follow_up left;
    std::atomic<int> next{0};
    std::array<int, 3> places{};
    const told<bool> done;
    queue_.submit([&] { places[0] = next++; });
    queue_.submit([&] { places[1] = next++; });
    follow(left);
    queue_.submit([&, done] {
      places[2] = next++;
      done.set(true);
    });
    follow(left);
    done.get();
    ASSERT_EQ(places, (std::array{0, 1, 2})) << "round " << round;
  }
}

TEST_F(compute_queue_test, a_borrowed_thread_computes_with_its_mode_and_gets_the_old_one_back) {
  follow_up left;
  bool flushed = false;
  queue_.submit([&] { flushed = flushes_denormals(); });
  ASSERT_TRUE(follow(left));
  EXPECT_TRUE(flushed);
  EXPECT_FALSE(flushes_denormals());
}

cpu_set_t cores_of_this_thread() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  return set;
}

/// The last processor that this process may use.
int last_core() {
  const auto mine = cores_of_this_thread();
  auto last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(static_cast<std::size_t>(last), &mine))
    --last;
  return last;
}

TEST(compute_queue_pinning_test, its_thread_is_pinned_where_asked) {
  const auto last = last_core();
  const std::vector<int> cores{last};
  compute_queue queue(1, kernels::isa::portable, cores);
  const told<cpu_set_t> asked;
  queue.submit([asked] { asked.set(cores_of_this_thread()); });
  const auto set = asked.get();
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(last), &set));
  const std::vector<int> none{CPU_SETSIZE - 1};
  if (last != none[0])
    EXPECT_THROW(compute_queue(1, kernels::isa::portable, none), std::system_error);
}

TEST(compute_queue_pinning_test, so_is_a_thread_that_it_borrows) {
  const std::vector<int> cores{last_core()};
  compute_queue queue(1, kernels::isa::portable, cores);
  cpu_set_t set;
  std::thread([&] {
    follow_up left;
    queue.submit([&] { set = cores_of_this_thread(); });
    left.take()();
  }).join();
  EXPECT_EQ(CPU_COUNT(&set), 1);
  EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cores[0]), &set));
}

} // namespace
} // namespace troupe
