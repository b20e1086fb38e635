#include "tests/simulation/schedule.hpp"

#include <string>

#include <gtest/gtest.h>

#include "tests/simulation/schedule_series.hpp"

namespace troupe::simulation {
namespace {

TEST(schedule_test, a_seed_gives_the_same_run_again) {
  for (std::uint64_t seed : {3U, 8U}) {
    const auto once = run_schedule({.seed = seed});
    const auto again = run_schedule({.seed = seed});
    EXPECT_EQ(once.violations, again.violations);
    EXPECT_EQ(once.history, again.history);
    EXPECT_EQ(once.messages, again.messages);
    EXPECT_EQ(once.lasted, again.lasted);
  }
}

TEST(schedule_test, seeds_differ) {
  EXPECT_NE(run_schedule({.seed = 1}).history, run_schedule({.seed = 2}).history);
}

/// Each kind of fault alone.
class fault_test : public testing::TestWithParam<fault_kind> {};

TEST_P(fault_test, costs_no_request) {
  for (std::uint64_t seed = 1; seed <= 20 && !HasFailure(); ++seed) {
    const auto result = run_schedule({.seed = seed, .num_faults = 3, .kinds = {GetParam()}});
    EXPECT_EQ(result.violations, std::vector<std::string>{}) << "seed " << seed;
    EXPECT_GE(result.num_requests, 4U) << "three, and the last one";
  }
}

INSTANTIATE_TEST_SUITE_P(each, fault_test, testing::ValuesIn(all_fault_kinds()), [](const auto& one) {
  std::string result = name_of(one.param);
  for (auto& letter : result)
    if (letter == '-')
      letter = '_';
  return result;
});

TEST(schedule_test, faults_are_told_in_words) {
  EXPECT_EQ(in_words({.kind = fault_kind::kill, .lasts = std::chrono::milliseconds{310}, .one = "expert-0"}),
            "expert-0 is killed, and starts again after 0.310 s");
}

TEST(schedule_series_test, counts_every_schedule_once) {
  series_options many;
  many.schedules = 7;
  many.jobs = 3;
  const auto total = run_series(many);
  EXPECT_EQ(total.schedules, 7U);
  EXPECT_TRUE(total.failures.empty());
  std::uint64_t requests = 0;
  for (std::uint64_t seed = 1; seed <= 7; ++seed)
    requests += run_schedule({.seed = seed}).num_requests;
  EXPECT_EQ(total.requests, requests);
}

} // namespace
} // namespace troupe::simulation
