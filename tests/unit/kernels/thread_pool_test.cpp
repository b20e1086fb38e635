#include "kernels/thread_pool.hpp"

#include <algorithm>
#include <atomic>
#include <new>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include "kernels/work_shares.hpp"

namespace troupe::kernels {

namespace {

float denormal_times_one() {
  volatile float denormal = 1e-40F;
  return denormal * 1.0F;
}

} // namespace

TEST(thread_pool, covers_every_index_once) {
  for (const unsigned threads : {1U, 2U, 3U, 7U}) {
    thread_pool pool({.threads = threads});
    EXPECT_EQ(pool.threads(), threads);
    for (const std::size_t count : {0UL, 1UL, 2UL, 5UL, 100UL, 1001UL}) {
      std::vector<std::atomic<int>> seen(count);
      pool.parallel_static(count, [&](unsigned thread, std::size_t begin, std::size_t end) {
        EXPECT_LT(thread, threads);
        EXPECT_LT(begin, end);
        for (std::size_t i = begin; i < end; ++i)
          ++seen[i];
      });
      pool.parallel_dynamic(count, 3, [&](unsigned, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i)
          ++seen[i];
      });
      std::vector<std::size_t> promised(threads, count);
      pool.parallel_items(count, [&](unsigned thread, std::size_t item, std::size_t next) {
        if (promised[thread] != count)
          EXPECT_EQ(item, promised[thread]);
        promised[thread] = next;
        ++seen[item];
      });
      EXPECT_EQ(promised, std::vector<std::size_t>(threads, count));
      EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](const auto& n) { return n == 3; }));
    }
  }
}

TEST(work_shares, a_thread_takes_its_own_items_before_those_of_others) {
  work_shares shares(3);
  shares.deal(8); // 0 1, 2 3 4, 5 6 7
  std::vector<std::size_t> taken;
  for (int i = 0; i < 6; ++i)
    taken.push_back(shares.take(1));
  EXPECT_EQ(taken, (std::vector<std::size_t>{2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(shares.take_own(1), 8U);
  EXPECT_EQ(shares.take_own(0), 0U);
  EXPECT_EQ(shares.take(2), 1U);
  EXPECT_EQ(shares.take(0), 8U);
  shares.deal(1); // the last thread's
  EXPECT_EQ(shares.take_own(0), 1U);
  EXPECT_EQ(shares.take(0), 0U);
  EXPECT_EQ(shares.take(2), 1U);
}

TEST(thread_pool, callers_take_turns) {
  thread_pool pool({.threads = 3});
  std::atomic<int> inside{0};
  std::atomic<int> most{0};
  std::atomic<std::size_t> sum{0};
  const auto call = [&] {
    for (int i = 0; i < 200; ++i)
      pool.parallel_dynamic(6, 1, [&](unsigned, std::size_t begin, std::size_t end) {
        const int now = ++inside;
        int before = most.load();
        while (before < now && !most.compare_exchange_weak(before, now)) {
        }
        sum += end - begin;
        --inside;
      });
  };
  std::thread other(call);
  call();
  other.join();
  EXPECT_EQ(sum.load(), 2U * 200U * 6U);
  EXPECT_LE(most.load(), 3);
}

TEST(thread_pool, computes_with_denormals_flushed_and_restores_the_caller) {
  ASSERT_NE(denormal_times_one(), 0.0F);
  thread_pool pool({.threads = 3});
  std::atomic<int> flushed{0};
  for (int i = 0; i < 50; ++i)
    pool.parallel_dynamic(9, 1, [&](unsigned, std::size_t, std::size_t) {
      if (denormal_times_one() == 0.0F)
        ++flushed;
    });
  EXPECT_EQ(flushed.load(), 450);
  EXPECT_NE(denormal_times_one(), 0.0F);
}

TEST(thread_pool, wakes_sleeping_workers) {
  // Without a spin workers sleep between any two jobs; every job must still be finished.
  thread_pool pool({.threads = 4, .cores = {}, .spin = std::chrono::microseconds(0)});
  std::atomic<int> done{0};
  for (int i = 0; i < 300; ++i)
    pool.parallel_static(
        4, [&](unsigned, std::size_t begin, std::size_t end) { done += static_cast<int>(end - begin); });
  EXPECT_EQ(done.load(), 1200);
}

TEST(thread_pool, pins_workers_to_cores) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  std::size_t last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &mine))
    --last;
  const std::vector<int> cores(2, static_cast<int>(last));
  thread_pool pool({.threads = 2, .cores = cores});
  std::atomic<bool> seen{false};
  std::atomic<int> elsewhere{0};
  while (!seen)
    pool.parallel_static(2, [&](unsigned thread, std::size_t, std::size_t) {
      if (thread == 0)
        return; // the caller, not pinned
      cpu_set_t set;
      sched_getaffinity(0, sizeof set, &set);
      elsewhere += CPU_COUNT(&set) != 1 || !CPU_ISSET(last, &set) ? 1 : 0;
      seen = true;
    });
  EXPECT_EQ(elsewhere.load(), 0);
}

TEST(thread_pool_death, a_range_that_throws_ends_the_process) {
  const auto run = [](unsigned threads, std::size_t count) {
    thread_pool pool({.threads = threads});
    pool.parallel_static(count, [](unsigned, std::size_t, std::size_t) { throw std::bad_alloc{}; });
  };
  EXPECT_DEATH(run(1, 1), "terminat"); // on the caller alone
  EXPECT_DEATH(run(3, 1), "terminat");
  EXPECT_DEATH(run(3, 3), "terminat");
}

TEST(thread_pool, refuses_a_core_that_does_not_exist) {
  const std::vector<int> cores{0, 1023};
  EXPECT_THROW(thread_pool({.threads = 2, .cores = cores}), std::system_error);
}

} // namespace troupe::kernels
