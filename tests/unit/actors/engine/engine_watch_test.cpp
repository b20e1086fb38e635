#include "actors/engine/engine_watch.hpp"

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class engine_watch_test : public ::testing::Test {
 protected:
  /// Moves time, with a call at every renewal.
  void pass(std::chrono::milliseconds time) {
    for (const auto end = now + time; now < end;) {
      now += std::min<engine_watch::duration>(defaults::lease_interval, end - now);
      seen = watch.look(now);
    }
  }

  /// A step of this duration.
  void run(std::chrono::milliseconds time) {
    watch.begin(1, now);
    pass(time);
    watch.end(1, now);
    seen = watch.look(now);
  }

  engine_watch::time_point now{1h};
  engine_watch watch;
  engine_progress seen = watch.look(now);
};

TEST_F(engine_watch_test, an_idle_engine_is_well_however_long) {
  pass(1h);
  EXPECT_EQ(seen, (engine_progress{0, 0, 10'000}));
}

TEST_F(engine_watch_test, the_oldest_step_counts) {
  watch.begin(7, now);
  pass(3s);
  watch.begin(8, now);
  pass(2s);
  EXPECT_EQ(seen, (engine_progress{0, 5'000, 10'000}));
  watch.end(7, now);
  seen = watch.look(now);
  EXPECT_EQ(seen, (engine_progress{1, 2'000, 100'000})) << "20 times the five seconds";
  watch.end(9, now);
  EXPECT_EQ(watch.look(now).steps, 1U) << "nobody knows that step";
}

TEST_F(engine_watch_test, a_step_that_does_not_come_back_is_a_stall) {
  run(100ms);
  watch.begin(2, now);
  pass(10s);
  EXPECT_FALSE(seen.is_stalled());
  pass(500ms);
  EXPECT_EQ(seen.oldest_step_ms, 10'500U);
  EXPECT_TRUE(seen.is_stalled());
  watch.end(2, now);
  EXPECT_FALSE(watch.look(now).is_stalled());
}

TEST_F(engine_watch_test, an_engine_may_take_twenty_times_what_its_steps_take) {
  run(4s);
  watch.begin(2, now);
  pass(80s);
  EXPECT_FALSE(seen.is_stalled());
  pass(500ms);
  EXPECT_TRUE(seen.is_stalled());
}

TEST_F(engine_watch_test, what_took_longer_than_the_limit_may_take_twice_as_long_the_next_time) {
  run(30s);
  EXPECT_EQ(seen.step_limit_ms, 60'000U) << "slow rather than hung, and not 600 s";
  run(50s);
  EXPECT_EQ(seen.step_limit_ms, 1'000'000U) << "within the limit: an engine that is as slow as that";
}

TEST_F(engine_watch_test, long_steps_are_forgotten_in_time) {
  run(5s);
  for (int i = 0; i < 5'000; ++i) {
    watch.begin(1, now);
    watch.end(1, now + 1ms);
  }
  EXPECT_EQ(watch.look(now).step_limit_ms, 10'000U);
}

TEST_F(engine_watch_test, a_process_that_stood_still_does_not_take_its_engine_for_hung) {
  watch.begin(2, now);
  pass(1s);
  now += 60s; // no calls: SIGSTOP, a debugger
  seen = watch.look(now);
  EXPECT_EQ(seen.oldest_step_ms, 1'000U);
  pass(9s);
  EXPECT_FALSE(seen.is_stalled());
  pass(1s);
  EXPECT_TRUE(seen.is_stalled()) << "but the engine has had ten seconds of its own";
}

TEST_F(engine_watch_test, a_standstill_is_no_step_time_when_the_step_comes_back_before_anybody_asks) {
  watch.begin(2, now);
  pass(1s);
  now += 60s;
  watch.end(2, now); // an engine's answer runs its actor at once
  EXPECT_EQ(watch.look(now).step_limit_ms, 20'000U) << "20 times the one second";
}

} // namespace
} // namespace troupe
