// The answers of a worker's /ready and /health.
#include "actors/cluster/member_pulse.hpp"

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using time_point = member_pulse::clock::time_point;

constexpr time_point start{1000s};

TEST(member_pulse, is_ready_from_when_it_holds_its_share_until_it_leaves) {
  member_pulse pulse;
  EXPECT_EQ(pulse.why_not_ready(), "looks for a scheduler");
  pulse.joined();
  EXPECT_EQ(pulse.why_not_ready(), "has yet to load the experts that it is to hold");
  pulse.ready();
  EXPECT_EQ(pulse.why_not_ready(), "");
  pulse.apart("looks for a scheduler");
  EXPECT_EQ(pulse.why_not_ready(), "") << "it serves on";
  pulse.leaves();
  EXPECT_EQ(pulse.why_not_ready(), "leaves the cluster");
  pulse.ready();
  EXPECT_EQ(pulse.why_not_ready(), "leaves the cluster");
}

TEST(member_pulse, a_worker_that_is_to_leave_is_not_replaced) {
  member_pulse pulse;
  pulse.joined();
  pulse.heard(start, {.steps = 7, .oldest_step_ms = 901, .step_limit_ms = 900});
  pulse.leaves();
  EXPECT_EQ(pulse.flaw(start + 60s), "");
}

TEST(member_pulse, a_worker_that_says_nothing_has_a_flaw_after_its_limit) {
  member_pulse pulse;
  pulse.joined();
  EXPECT_EQ(pulse.flaw(start), "") << "it has not been asked yet";
  pulse.heard(start, {});
  EXPECT_EQ(pulse.flaw(start + defaults::worker_silence), "");
  EXPECT_EQ(pulse.flaw(start + defaults::worker_silence + 1ms),
            "the worker has not said its load for 10001 ms");
  pulse.heard(start + 11s, {});
  EXPECT_EQ(pulse.flaw(start + 12s), "");
}

TEST(member_pulse, a_stalled_engine_is_a_flaw) {
  member_pulse pulse;
  pulse.joined();
  pulse.heard(start, {.steps = 7, .oldest_step_ms = 900, .step_limit_ms = 900});
  EXPECT_EQ(pulse.flaw(start), "");
  pulse.heard(start, {.steps = 7, .oldest_step_ms = 901, .step_limit_ms = 900});
  EXPECT_EQ(pulse.flaw(start), "the engine has worked on one step for 901 ms; it may take 900 ms");
}

TEST(member_pulse, who_is_not_in_the_cluster_is_not_replaced_for_its_silence) {
  member_pulse pulse;
  pulse.joined();
  pulse.heard(start, {});
  pulse.apart("looks for a scheduler");
  EXPECT_EQ(pulse.flaw(start + 60s), "");
  pulse.joined();
  EXPECT_EQ(pulse.flaw(start + 60s), "") << "what it said before counts no more";
}

} // namespace
} // namespace troupe
