// Which silence counts against a worker, and which against the scheduler's own process.
#include <gtest/gtest.h>

#include "actors/scheduler/failure_detector.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

TEST(failure_detector, a_late_tick_is_blamed_on_this_process) {
  failure_detector failures{start_time + defaults::scheduler_tick};
  auto now = start_time + defaults::scheduler_tick;
  EXPECT_EQ(failures.tick(now), time_point::duration{});
  EXPECT_FALSE(failures.was_held_up(now));
  now += defaults::scheduler_tick + 3 * defaults::lease;
  EXPECT_TRUE(failures.was_held_up(now)) << "its tick is overdue";
  EXPECT_EQ(failures.tick(now), time_point::duration{3 * defaults::lease});
  EXPECT_TRUE(failures.was_held_up(now));
  for (const auto end = now + defaults::lease; now < end;) {
    now += defaults::scheduler_tick;
    EXPECT_EQ(failures.tick(now), time_point::duration{});
  }
  EXPECT_FALSE(failures.was_held_up(now));
}

TEST(failure_detector, a_hung_worker_may_not_join_and_is_told_once) {
  failure_detector failures;
  auto hello = expert_hello(11);
  hello.engine = {.steps = 1, .oldest_step_ms = 60'000, .step_limit_ms = 1'000};
  ASSERT_TRUE(hello.engine.is_stalled());
  EXPECT_EQ(code_of(failures.check_engine(hello)), ec::not_ready);
  EXPECT_TRUE(failures.tell_hung({11}));
  EXPECT_FALSE(failures.tell_hung({11}));
  EXPECT_FALSE(failures.check_engine(expert_hello(11)));
  EXPECT_TRUE(failures.tell_hung({11})) << "it has worked meanwhile";
}

TEST(failure_detector, who_has_not_renewed_its_lease_is_dead_also_in_a_recovery) {
  failure_detector failures{start_time};
  member_table members;
  members.join(expert_hello(11), start_time);
  members.join(expert_hello(12), start_time + std::chrono::seconds{1});
  const auto dead =
      failures.next_dead(members, {}, true, start_time + defaults::lease + std::chrono::milliseconds{1});
  ASSERT_TRUE(dead);
  EXPECT_EQ(dead->worker, worker_id{11});
  EXPECT_EQ(dead->reason, fence_reason::lease);
  EXPECT_FALSE(failures.next_dead(members, {}, true, start_time + defaults::lease));
}

TEST(failure_detector, the_only_host_of_an_expert_is_not_accused) {
  const auto silent_for = [](const std::vector<worker_id>& hosts, bool is_recovering = false) {
    const auto later = start_time + std::chrono::minutes{10};
    failure_detector failures{later};
    member_table members;
    for (const auto& hello : {attention_hello(1), attention_hello(2), expert_hello(11), expert_hello(12)}) {
      members.join(hello, start_time);
      failures.joined(hello, start_time);
    }
    for (std::uint64_t id : {1U, 2U}) {
      lease_renewal load;
      load.id = {id};
      load.of_role = attention_load{.complaints = {{{11}, 600'000}}};
      failures.renewed(load, start_time);
    }
    cluster_view view;
    view.experts.layers = {std::make_shared<const layer_placement>(layer_placement{1, {{hosts}}})};
    members.extend(std::chrono::minutes{10}, later);
    return failures.next_dead(members, view, is_recovering, later).has_value();
  };
  EXPECT_FALSE(silent_for({{11}}));
  EXPECT_TRUE(silent_for({{12}}));
  EXPECT_TRUE(silent_for({{11}, {12}}));
  EXPECT_FALSE(silent_for({{11}, {12}}, true)) << "those who would answer may not be back yet";
}

} // namespace
} // namespace troupe
