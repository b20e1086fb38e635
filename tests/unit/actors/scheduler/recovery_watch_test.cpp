// Which workers a restarted scheduler waits for, and for how long.
#include <gtest/gtest.h>

#include "actors/scheduler/recovery_watch.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

worker_hello back(worker_hello hello) {
  hello.term = 1;
  return hello;
}

TEST(recovery_watch, ends_when_all_that_were_saved_are_back) {
  recovery_watch watch;
  EXPECT_FALSE(watch.is_recovering(start_time));
  watch.restore({attention_hello(1).address, expert_hello(11).address}, start_time);
  watch.joined(back(attention_hello(1)), true, start_time);
  EXPECT_TRUE(watch.is_recovering(start_time));
  watch.joined(back(expert_hello(11)), false, start_time);
  EXPECT_FALSE(watch.is_recovering(start_time));
  EXPECT_TRUE(watch.missed().empty());
}

TEST(recovery_watch, a_worker_that_was_started_anew_is_back_by_its_name) {
  recovery_watch watch;
  watch.restore({expert_hello(11).address}, start_time);
  auto anew = expert_hello(12);
  anew.address.name = "expert-11";
  watch.joined(anew, true, start_time);
  EXPECT_FALSE(watch.is_recovering(start_time));
}

TEST(recovery_watch, keeps_attention_workers_and_gives_up_expert_hosts) {
  recovery_watch watch;
  watch.restore({attention_hello(1).address, attention_hello(2).address, expert_hello(11).address},
                start_time);
  EXPECT_TRUE(watch.is_recovering(start_time + defaults::scheduler_recovery - std::chrono::nanoseconds{1}));
  EXPECT_TRUE(watch.give_up(start_time + defaults::scheduler_recovery).empty());
  EXPECT_FALSE(watch.is_recovering(start_time + defaults::scheduler_recovery));
  ASSERT_EQ(watch.missed().size(), 2U);
  const auto returned =
      watch.joined(back(attention_hello(2)), false, start_time + defaults::scheduler_recovery);
  EXPECT_EQ(returned, (std::vector<worker_id>{{2}}));
  EXPECT_TRUE(watch.give_up(start_time + defaults::recovery_limit - std::chrono::nanoseconds{1}).empty());
  const auto lost = watch.give_up(start_time + defaults::recovery_limit);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost.front().id, worker_id{1});
  EXPECT_TRUE(watch.missed().empty());
}

TEST(recovery_watch, a_worker_of_an_unknown_cluster_begins_one_that_returns_prolong_up_to_the_limit) {
  recovery_watch watch;
  watch.joined(expert_hello(11), true, start_time);
  EXPECT_FALSE(watch.is_recovering(start_time)) << "it has seen no scheduler";
  watch.joined(back(expert_hello(12)), true, start_time);
  auto now = start_time;
  for (; now < start_time + defaults::recovery_limit; now += defaults::recovery_extension / 2) {
    EXPECT_TRUE(watch.is_recovering(now)) << "nobody knows who else is to come";
    watch.joined(back(expert_hello(13)), false, now);
  }
  EXPECT_FALSE(watch.is_recovering(now));
}

TEST(recovery_watch, a_lost_worker_is_expected_back) {
  recovery_watch watch;
  watch.expect(expert_hello(11).address, start_time);
  EXPECT_TRUE(watch.is_recovering(start_time));
  watch.joined(back(expert_hello(11)), false, start_time);
  EXPECT_FALSE(watch.is_recovering(start_time));
}

} // namespace
} // namespace troupe
