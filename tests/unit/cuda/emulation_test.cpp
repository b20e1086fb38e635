// The emulation's own rules, with kernels that obey and that break them.
#include "kernels/cuda/emulation.hpp"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/copy_async.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

namespace {

void run(unsigned blocks, unsigned threads, std::size_t shared_bytes, const std::function<void()>& kernel) {
  emulation::run("kernel", {blocks, 1, 1}, {threads, 1, 1}, shared_bytes, kernel);
}

class every_order : public testing::TestWithParam<emulation::order> {
 protected:
  void SetUp() override { emulation::set_order(GetParam()); }

  void TearDown() override { emulation::set_order(emulation::order::rising); }
};

} // namespace

TEST_P(every_order, every_thread_of_every_block_runs_once) {
  std::vector<int> counts(5 * 64);
  run(5, 64, 0, [&] { ++counts[blockIdx.x * blockDim.x + threadIdx.x]; });
  EXPECT_EQ(counts, std::vector<int>(5 * 64, 1));
}

TEST_P(every_order, what_is_written_before_a_barrier_is_read_after_it) {
  std::vector<unsigned> seen(96);
  run(1, 96, 96 * sizeof(unsigned), [&] {
    auto* shared = reinterpret_cast<unsigned*>(emulation::shared_memory());
    for (unsigned round = 0; round < 3; ++round) {
      shared[threadIdx.x] = threadIdx.x + round;
      block_barrier();
      seen[threadIdx.x] = shared[(threadIdx.x + 1) % 96];
      block_barrier();
    }
  });
  for (unsigned i = 0; i < 96; ++i)
    EXPECT_EQ(seen[i], (i + 1) % 96 + 2);
}

TEST_P(every_order, lanes_exchange_values_again_and_again) {
  std::vector<float> sums(64);
  std::vector<std::uint32_t> votes(64);
  run(1, 64, 0, [&] {
    float value = static_cast<float>(threadIdx.x);
    for (int i = 0; i < 3; ++i)
      value = warp_sum(value);
    sums[threadIdx.x] = value;
    votes[threadIdx.x] = ballot(threadIdx.x % 3 == 0);
  });
  EXPECT_EQ(sums[5], 496.0F * 32.0F * 32.0F);
  EXPECT_EQ(sums[40], (496.0F + 32.0F * 32.0F) * 32.0F * 32.0F);
  EXPECT_EQ(votes[0], 0x49249249U);
}

TEST_P(every_order, copies_are_there_once_their_group_is_waited_for_and_not_before) {
  const std::vector<std::uint32_t> from{7, 8, 9};
  std::vector<std::vector<std::uint32_t>> seen(32);
  run(1, 32, 32 * 4 * sizeof(std::uint32_t), [&] {
    auto* own = reinterpret_cast<std::uint32_t*>(emulation::shared_memory()) + 4 * threadIdx.x;
    const auto look = [&] { seen[threadIdx.x].insert(seen[threadIdx.x].end(), {own[0], own[1], own[2]}); };
    for (unsigned i = 0; i < 3; ++i) {
      copy_async<4>(own + i, from.data() + i, i != 1); // a group each
      end_copy_group();
    }
    look();
    wait_for_copies<1>();
    look();
    wait_for_copies<0>();
    look();
  });
  constexpr std::uint32_t poison = 0xa5a5a5a5U;
  for (const auto& of_thread : seen)
    EXPECT_EQ(of_thread, (std::vector<std::uint32_t>{poison, poison, poison, 7, 0, poison, 7, 0, 9}));
}

INSTANTIATE_TEST_SUITE_P(emulation, every_order,
                         testing::Values(emulation::order::rising, emulation::order::falling,
                                         emulation::order::mixed));

TEST(emulation, a_missing_barrier_shows_in_another_order) {
  const auto race = [](emulation::order order) {
    emulation::set_order(order);
    unsigned seen = 0;
    run(1, 64, sizeof(unsigned), [&] {
      auto* shared = reinterpret_cast<unsigned*>(emulation::shared_memory());
      if (threadIdx.x == 0)
        *shared = 1;
      if (threadIdx.x == 63) // without waiting
        seen = *shared;
    });
    emulation::set_order(emulation::order::rising);
    return seen;
  };
  EXPECT_NE(race(emulation::order::rising), race(emulation::order::falling));
}

TEST(emulation_death, a_barrier_that_some_threads_miss_ends_the_process) {
  EXPECT_DEATH(run(1, 64, 0,
                   [] {
                     if (threadIdx.x != 5)
                       block_barrier();
                   }),
               "others never reach");
}

TEST(emulation_death, different_collectives_of_one_warp_end_the_process) {
  EXPECT_DEATH(run(1, 32, 0,
                   [] {
                     if (threadIdx.x < 16)
                       ballot(true);
                     else
                       warp_sum(1.0F);
                   }),
               "different collectives");
}

TEST(emulation_death, copies_that_nobody_waits_for_and_unaligned_ones_end_the_process) {
  alignas(16) static constexpr std::uint32_t from[8] = {};
  EXPECT_DEATH(run(1, 32, 16, [] { copy_async<16>(emulation::shared_memory(), from, true); }),
               "has not waited for");
  EXPECT_DEATH(run(1, 32, 32, [] { copy_async<16>(emulation::shared_memory(), from + 1, true); }),
               "not aligned");
}

TEST(emulation_death, grids_and_blocks_that_no_gpu_takes_end_the_process) {
  const auto launch = [](emulation::dimensions grid, unsigned threads, std::size_t shared_bytes) {
    emulation::run("kernel", grid, {threads, 1, 1}, shared_bytes, [] {});
  };
  EXPECT_DEATH(launch({1, 65536, 1}, 32, 0), "at most 65535 blocks in y and in z");
  EXPECT_DEATH(launch({1, 1, 65536}, 32, 0), "at most 65535 blocks in y and in z");
  EXPECT_DEATH(launch({1, 1, 1}, 1056, 0), "32 to 1024 threads");
  EXPECT_DEATH(launch({1, 1, 1}, 32, (227U << 10) + 1), "at most 227 KiB");
  launch({1, 1, 1}, 1024, 227U << 10);
}

TEST(emulation_death, a_check_that_fails_names_kernel_and_thread) {
  EXPECT_DEATH(run(2, 32, 0, [] { TROUPE_DEVICE_CHECK(threadIdx.x + blockIdx.x != 8); }),
               "emulated kernel kernel: out of bounds.*block 0,0,0 thread 8,0,0");
}

// The emulation has no such limit: this checks what a launch on a GPU requests.
TEST(launch, static_and_dynamic_shared_memory_count_together) {
  constexpr std::size_t limit = shared_bytes_always_allowed;
  EXPECT_FALSE(needs_more_shared(0, limit));
  EXPECT_TRUE(needs_more_shared(0, limit + 1));
  EXPECT_FALSE(needs_more_shared(64, limit - 64));
  EXPECT_TRUE(needs_more_shared(64, limit - 63));
  EXPECT_FALSE(needs_more_shared(limit, 0));
}

} // namespace troupe::kernels::cuda
