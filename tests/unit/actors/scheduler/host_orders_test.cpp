// One order at a time for each host.
#include <gtest/gtest.h>

#include "actors/scheduler/host_orders.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/start_time.hpp"

namespace troupe {
namespace {

TEST(host_orders, a_host_has_one_order_at_a_time) {
  host_orders orders;
  orders.joined({11});
  EXPECT_TRUE(orders.may_order({11}, start_time));
  const auto order = orders.begin({11});
  EXPECT_FALSE(orders.may_order({11}, start_time));
  EXPECT_TRUE(orders.is_under_way({11}));
  EXPECT_FALSE(orders.are_idle(start_time));
  EXPECT_TRUE(orders.end({11}, order));
  EXPECT_FALSE(orders.end({11}, order)) << "it was answered";
  EXPECT_TRUE(orders.are_idle(start_time));
}

TEST(host_orders, an_order_ends_with_its_member_and_numbers_go_on) {
  host_orders orders;
  orders.joined({11});
  const auto first = orders.begin({11});
  orders.joined({11});
  EXPECT_TRUE(orders.may_order({11}, start_time));
  EXPECT_FALSE(orders.end({11}, first));
  EXPECT_GT(orders.begin({11}), first);
  orders.removed({11});
  EXPECT_FALSE(orders.end({11}, first + 1));
  EXPECT_TRUE(orders.are_idle(start_time));
}

TEST(host_orders, failures_make_longer_pauses_until_a_success) {
  host_orders orders;
  orders.joined({11});
  const auto fail = [&](time_point now) {
    orders.end({11}, orders.begin({11}));
    orders.failed({11}, now);
  };
  fail(start_time);
  EXPECT_FALSE(orders.may_order({11}, start_time));
  EXPECT_TRUE(orders.may_order({11}, start_time + defaults::reconnect_min));
  fail(start_time);
  EXPECT_FALSE(orders.may_order({11}, start_time + defaults::reconnect_min));
  EXPECT_TRUE(orders.may_order({11}, start_time + 2 * defaults::reconnect_min));
  for (int times = 0; times < 20; ++times)
    fail(start_time);
  EXPECT_TRUE(orders.may_order({11}, start_time + defaults::host_order_retry_max));
  orders.succeeded({11});
  fail(start_time);
  EXPECT_TRUE(orders.may_order({11}, start_time + defaults::reconnect_min));
}

TEST(host_orders, a_host_is_ordered_what_the_rollout_wants_of_it) {
  member_table members;
  placement_rollout rollout;
  host_orders orders;
  rollout.set_layers({2});
  members.join(expert_hello(11), start_time);
  orders.joined({11});
  rollout.add_host({11}, UINT64_MAX, {});
  EXPECT_FALSE(orders.next({11}, 4, members, rollout));
  EXPECT_FALSE(orders.is_under_way({11}));
  rollout.retarget({{{0, 1}, {{11}}}});
  const auto order = orders.next({11}, 4, members, rollout);
  ASSERT_TRUE(order);
  EXPECT_EQ(order->term, 4U);
  EXPECT_EQ(order->experts, (std::vector<expert_id>{{0, 1}}));
  EXPECT_TRUE(orders.is_under_way({11}));
  EXPECT_TRUE(orders.end({11}, order->order));
}

TEST(host_orders, a_worker_without_files_is_told_which_hosts_have_the_weights) {
  member_table members;
  placement_rollout rollout;
  rollout.set_layers({2});
  auto fileless = expert_hello(12);
  terms_of<expert_terms>(fileless).weights = weight_origin::peers;
  for (const auto& hello : {expert_hello(11), fileless})
    members.join(hello, start_time);
  rollout.add_host({11}, UINT64_MAX, {{0, 0}, {0, 1}});
  rollout.add_host({12}, UINT64_MAX, {{0, 1}});
  const auto sources = sources_for({12}, {{0, 0}, {0, 1}}, members, rollout);
  ASSERT_EQ(sources.size(), 1U);
  EXPECT_EQ(sources.front().worker, expert_hello(11).address);
  EXPECT_EQ(sources.front().experts, (std::vector<expert_id>{{0, 0}}));
  EXPECT_TRUE(sources_for({11}, {{0, 0}}, members, rollout).empty());
}

} // namespace
} // namespace troupe
