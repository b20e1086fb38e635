#include "actors/transport/fabric/polling.hpp"

#include <gtest/gtest.h>

namespace troupe::wire {
namespace {

using namespace std::chrono_literals;

constexpr polling::time_point start{1h};

TEST(polling_test, polls_for_its_limit_and_then_sleeps) {
  polling x{50us};
  x.worked(start, false);
  EXPECT_TRUE(x.worth(start + 49us));
  EXPECT_FALSE(x.worth(start + 50us));
}

TEST(polling_test, without_a_limit_it_always_sleeps) {
  polling x{0us};
  x.worked(start, false);
  EXPECT_FALSE(x.worth(start));
}

TEST(polling_test, after_polling_in_vain_it_takes_short_sleeps_to_begin_again) {
  polling x{50us};
  x.worked(start, false);
  EXPECT_FALSE(x.worth(start + 1ms));
  x.worked(start + 1ms, false);
  EXPECT_FALSE(x.worth(start + 1ms));
  x.slept(10ms);
  EXPECT_FALSE(x.worth(start + 1ms));
  x.slept(100us);
  x.slept(100us);
  EXPECT_TRUE(x.worth(start + 1ms));
}

TEST(polling_test, the_more_often_it_was_in_vain_the_more_it_takes) {
  polling x{50us};
  const auto short_sleeps = [&x] {
    int count = 0;
    for (x.worked(start, false); !x.worth(start); ++count)
      x.slept(100us);
    return count;
  };
  EXPECT_FALSE(x.worth(start));
  const auto first = short_sleeps();
  EXPECT_FALSE(x.worth(start + 1ms));
  const auto second = short_sleeps();
  EXPECT_GT(second, first);
  x.worked(start, true);
  EXPECT_FALSE(x.worth(start + 1ms));
  EXPECT_LT(short_sleeps(), second);
}

TEST(polling_test, stays_away_from_a_crowded_core_for_longer_and_longer) {
  polling x{50us};
  auto now = start;
  auto last_pause = polling::duration::zero();
  for (int i = 0; i < 8; ++i) {
    x.yielded(3ms, now);
    auto back = now;
    for (x.worked(back, true); !x.worth(back); x.worked(back, true))
      back += 1ms;
    EXPECT_GE(back - now, last_pause);
    last_pause = back - now;
    now = back;
  }
  EXPECT_GE(last_pause, 900ms);
  EXPECT_LE(last_pause, 1100ms);
  // Long undisturbed: the next time is like the first.
  now += 10s;
  x.yielded(3ms, now);
  x.worked(now + 100ms, true);
  EXPECT_TRUE(x.worth(now + 100ms));
}

TEST(polling_test, letting_others_run_briefly_costs_nothing) {
  polling x{50us};
  x.worked(start, false);
  x.yielded(20us, start);
  EXPECT_TRUE(x.worth(start + 20us));
}

} // namespace
} // namespace troupe::wire
