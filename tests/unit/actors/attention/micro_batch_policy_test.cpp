#include "actors/attention/micro_batch_policy.hpp"

#include <gtest/gtest.h>

namespace troupe {
namespace {

micro_batch_policy::config up_to(std::uint32_t most) {
  micro_batch_policy::config result;
  result.max_micro_batches = most;
  return result;
}

/// The policy's result once it has seen `seen` often enough.
std::uint32_t settled(micro_batch_policy policy, const micro_batch_policy::measurement& seen) {
  for (int i = 0; i < 100; ++i)
    policy.observe(seen);
  return policy.wanted();
}

TEST(micro_batch_policy, starts_with_one) {
  EXPECT_EQ(micro_batch_policy{up_to(4)}.wanted(), 1U);
}

TEST(micro_batch_policy, one_while_experts_are_bandwidth_bound) {
  // Decoding: two rows an expert; streaming experts takes most of the time, and there is hardly a network.
  EXPECT_EQ(settled(micro_batch_policy{up_to(4)}, {1, 4e6, 10.5e6, 10e6, 2}), 1U);
}

TEST(micro_batch_policy, more_where_experts_are_bound_by_arithmetic) {
  EXPECT_GT(settled(micro_batch_policy{up_to(4)}, {1, 4e6, 10.5e6, 10e6, 200}), 1U);
}

TEST(micro_batch_policy, more_where_waiting_exceeds_what_splitting_costs) {
  // Few rows per expert, but the answers are late for reasons other than computing.
  EXPECT_GT(settled(micro_batch_policy{up_to(4)}, {1, 20e6, 12e6, 1e6, 2}), 1U);
}

TEST(micro_batch_policy, keeps_to_its_bound) {
  EXPECT_LE(settled(micro_batch_policy{up_to(2)}, {1, 20e6, 12e6, 1e6, 200}), 2U);
  EXPECT_EQ(settled(micro_batch_policy{up_to(1)}, {1, 20e6, 12e6, 1e6, 200}), 1U);
}

TEST(micro_batch_policy, does_not_depend_on_how_many_were_in_flight_when_measured) {
  // The same load seen with one micro-batch of 64 rows an expert, and with two of 32: E(32) = E(64) × 48
  // / 80.
  const auto whole = settled(micro_batch_policy{up_to(4)}, {1, 10e6, 11e6, 10e6, 64});
  const auto halves = settled(micro_batch_policy{up_to(4)}, {2, 5e6, 7e6, 6e6, 32});
  EXPECT_EQ(whole, halves);
}

TEST(micro_batch_policy, comes_back_to_one_when_the_load_goes) {
  micro_batch_policy policy{up_to(4)};
  for (int i = 0; i < 100; ++i)
    policy.observe({1, 4e6, 10.5e6, 10e6, 200});
  ASSERT_GT(policy.wanted(), 1U);
  for (int i = 0; i < 100; ++i)
    policy.observe({policy.wanted(), 3e6, 10.5e6, 10e6, 1});
  EXPECT_EQ(policy.wanted(), 1U);
}

TEST(micro_batch_policy, nothing_measured_is_no_reason_to_split) {
  EXPECT_EQ(settled(micro_batch_policy{up_to(4)}, {1, 0, 0, 0, 0}), 1U);
}

} // namespace
} // namespace troupe
