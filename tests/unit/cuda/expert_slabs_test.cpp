// Device memory for many experts in few allocations.
#include "kernels/model/cuda/expert_slabs.hpp"

#include "kernels/cuda/emulated_faults.hpp"
#include "tests/unit/cuda/emulated_room.hpp"

#include <algorithm>
#include <cstddef>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace troupe::model {
namespace {

namespace cuda = kernels::cuda;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// The size of an int4 expert: alone it would take 4 MiB.
constexpr std::size_t expert_bytes = mebibyte * 12 / 5 / 256 * 256;

class expert_slabs_test : public testing::Test {
 protected:
  /// Device memory allocated since the start of the test.
  std::size_t taken() const { return cuda::emulated_memory_taken() - before_; }

  std::size_t before_ = cuda::emulated_memory_taken();
  expert_slabs slabs_{expert_bytes, 10}; // 24 MiB a slab
  std::vector<expert_slabs::place> places_;
};

TEST_F(expert_slabs_test, what_they_take_is_what_they_say_and_hardly_more_than_experts_have) {
  EXPECT_EQ(slabs_.num_bytes(), 0U);
  const auto count = 4 * slabs_.experts_in_slab();
  while (places_.size() < count)
    places_.push_back(slabs_.take());
  EXPECT_EQ(taken(), slabs_.num_bytes());
  EXPECT_GE(taken(), count * expert_bytes);
  EXPECT_LE(taken(), count * expert_bytes * 21 / 20) << "one by one it would be two thirds more";
  EXPECT_GE(count * slabs_.bytes_of_expert(), taken());
}

TEST_F(expert_slabs_test, every_expert_has_memory_of_its_own) {
  while (places_.size() < 2 * slabs_.experts_in_slab() + 1)
    places_.push_back(slabs_.take());
  std::vector<const std::byte*> at;
  for (const auto& place : places_)
    at.push_back(place.data());
  std::sort(at.begin(), at.end());
  for (std::size_t i = 1; i < at.size(); ++i)
    EXPECT_GE(at[i] - at[i - 1], static_cast<std::ptrdiff_t>(expert_bytes));
}

TEST_F(expert_slabs_test, a_place_that_was_given_back_is_the_next_experts) {
  while (places_.size() < slabs_.experts_in_slab())
    places_.push_back(slabs_.take());
  const auto all = taken();
  for (int round = 0; round < 3; ++round) {
    const auto* free = places_.back().data();
    places_.pop_back();
    EXPECT_EQ(taken(), all);
    places_.push_back(slabs_.take());
    EXPECT_EQ(places_.back().data(), free);
    EXPECT_EQ(taken(), all);
  }
}

TEST_F(expert_slabs_test, of_empty_slabs_one_is_kept) {
  while (places_.size() < 3 * slabs_.experts_in_slab())
    places_.push_back(slabs_.take());
  const auto slab = taken() / 3;
  while (!places_.empty())
    places_.pop_back();
  EXPECT_EQ(taken(), slab);
  EXPECT_EQ(slabs_.num_bytes(), slab);
  places_.push_back(slabs_.take());
  EXPECT_EQ(taken(), slab);
}

TEST_F(expert_slabs_test, new_experts_fill_the_fullest_slab) {
  const auto in_slab = slabs_.experts_in_slab();
  std::vector<expert_slabs::place> second;
  while (places_.size() < in_slab)
    places_.push_back(slabs_.take());
  while (second.size() < in_slab)
    second.push_back(slabs_.take());
  const auto* free = places_.back().data();
  places_.pop_back();
  while (second.size() > 1)
    second.pop_back();
  EXPECT_EQ(slabs_.take().data(), free);
}

TEST_F(expert_slabs_test, a_device_that_is_full_is_an_error_that_says_so_and_passes) {
  std::optional<test::emulated_room> room(std::in_place, 30 * mebibyte);
  while (places_.size() < slabs_.experts_in_slab())
    places_.push_back(slabs_.take());
  try {
    slabs_.take();
    FAIL() << "there is no room for another slab";
  } catch (const cuda::device_error& error) {
    EXPECT_TRUE(error.is_out_of_memory()) << error.what();
    EXPECT_NE(std::string{error.what()}.find("; 6 of the device's "), std::string::npos) << error.what();
  }
  EXPECT_EQ(taken(), slabs_.num_bytes());
  places_.pop_back();
  places_.push_back(slabs_.take()); // a place is there again
  room.emplace(100 * mebibyte);
  places_.push_back(slabs_.take());
}

TEST_F(expert_slabs_test, an_expert_that_is_larger_than_a_slab_has_one_alone_and_few_experts_a_small_one) {
  expert_slabs large(100 * mebibyte, 8);
  EXPECT_EQ(large.experts_in_slab(), 1U);
  EXPECT_EQ(large.bytes_of_expert(), 100 * mebibyte);
  EXPECT_EQ(expert_slabs(expert_bytes, 1000).experts_in_slab(), 26U);
  expert_slabs few(256, 8);
  EXPECT_EQ(few.experts_in_slab(), 8U);
  const auto place = few.take();
  EXPECT_EQ(taken(), 2048U);
}

TEST_F(expert_slabs_test, threads_take_and_give_back_at_once) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([this, t] {
      for (int round = 0; round < 20; ++round) {
        std::vector<expert_slabs::place> own;
        for (int i = 0; i < 3; ++i) {
          own.push_back(slabs_.take());
          *own.back().data() = std::byte(t);
        }
        for (const auto& place : own)
          EXPECT_EQ(*place.data(), std::byte(t));
      }
    });
  for (auto& thread : threads)
    thread.join();
  EXPECT_EQ(slabs_.num_bytes(), cuda::memory_taken_for(slabs_.experts_in_slab() * expert_bytes)) << "one";
  EXPECT_EQ(taken(), slabs_.num_bytes());
}

} // namespace
} // namespace troupe::model
