// When what is published is saved.
#include <gtest/gtest.h>

#include "actors/protocol/error.hpp"
#include "actors/scheduler/save_schedule.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

TEST(save_schedule, one_write_at_a_time_and_the_newest_after_it) {
  save_schedule saves;
  EXPECT_FALSE(saves.begin_next(start_time));
  EXPECT_TRUE(saves.begin(start_time));
  EXPECT_FALSE(saves.begin(start_time));
  EXPECT_FALSE(saves.begin_next(start_time));
  saves.succeeded();
  EXPECT_TRUE(saves.begin_next(start_time));
  saves.succeeded();
  EXPECT_FALSE(saves.begin_next(start_time)) << "all is saved";
}

TEST(save_schedule, a_failed_write_is_repeated_after_a_while) {
  save_schedule saves;
  saves.begin(start_time);
  EXPECT_TRUE(saves.failed(make_error(ec::engine_failed, "full"), start_time));
  EXPECT_FALSE(saves.begin_next(start_time));
  EXPECT_TRUE(saves.begin_next(start_time + defaults::slow_save));
}

TEST(save_schedule, what_a_successor_has_overtaken_is_not_repeated) {
  save_schedule saves;
  saves.begin(start_time);
  EXPECT_FALSE(saves.failed(make_error(ec::stale_term, "a newer term"), start_time));
  EXPECT_FALSE(saves.begin_next(start_time + defaults::slow_save));
}

TEST(save_schedule, tells_of_a_slow_disk_once_until_it_answers) {
  save_schedule saves;
  const auto late = start_time + defaults::slow_save + std::chrono::milliseconds{1};
  EXPECT_FALSE(saves.check(late));
  saves.begin(start_time);
  EXPECT_FALSE(saves.check(start_time + defaults::slow_save));
  EXPECT_TRUE(saves.check(late));
  EXPECT_FALSE(saves.check(late));
  saves.succeeded();
  saves.begin(start_time);
  EXPECT_TRUE(saves.check(late));
}

} // namespace
} // namespace troupe
