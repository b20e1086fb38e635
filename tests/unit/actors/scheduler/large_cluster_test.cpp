// The messages of a scheduler with many workers: proportional to the changes, and few.
#include "tests/unit/actors/scheduler/large_cluster.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class large_cluster_test : public large_cluster {
 protected:
  /// 40 hosts and 3 attention workers with 4 layers of 64 experts and a dense one, all loaded; seconds later.
  void start_ready(duration join_within = 1s) {
    start({.num_hosts = 40,
           .num_routers = 3,
           .layer_experts = {64, 0, 64, 64, 64},
           .max_experts = 16,
           .join_within = join_within});
    ASSERT_TRUE(run_until([this] { return is_ready(); }, 5s));
    advance(5s);
    take_sent();
  }
};

TEST_F(large_cluster_test, many_who_join_at_once_make_few_publications) {
  start_ready(0s);
  EXPECT_EQ(num_publications, 2U) << "who is there, and where the experts are";
}

TEST_F(large_cluster_test, starts_soon_after_the_last_has_joined) {
  start({.num_hosts = 40, .num_routers = 3, .layer_experts = {64, 0, 64, 64, 64}, .max_experts = 16});
  ASSERT_TRUE(run_until([this] { return is_ready(); }, 5s));
  EXPECT_LE(now(), 1s + chosen.load_time + 2 * defaults::gather_changes);
}

TEST_F(large_cluster_test, nothing_is_sent_while_nothing_changes) {
  start_ready();
  advance(60s);
  EXPECT_EQ(total(), tally{});
}

TEST_F(large_cluster_test, a_restarted_scheduler_has_everybody_back_soon_and_orders_nothing) {
  start_ready();
  const auto before = num_welcomes;
  restart_scheduler(300ms);
  const auto restarted = now();
  ASSERT_TRUE(run_until([this] { return is_ready(); }, 5s));
  EXPECT_EQ(num_welcomes - before, 43U);
  EXPECT_LE(now() - restarted, 400ms) << "the longest pause by then";
  advance(10s);
  EXPECT_EQ(take_sent()["order"].messages, 0U);
  EXPECT_EQ(ask<scheduler_status>(scheduler, status_atom_v)->term, 2U);
}

TEST_F(large_cluster_test, a_death_is_acted_on_at_once) {
  start_ready();
  const auto died = now();
  const auto before = newest_epoch;
  const auto dead = hosts.begin()->second;
  hosts.erase(hosts.begin());
  kill(dead);
  EXPECT_EQ(newest_epoch, before + 1) << "without a wait";
  EXPECT_FALSE(newest_ready);
  ASSERT_TRUE(run_until([&] { return is_ready(before); }, 1s));
  EXPECT_EQ(now() - died, chosen.load_time + defaults::gather_changes);
}

TEST_F(large_cluster_test, deaths_at_once_make_few_publications) {
  start_ready();
  const auto before = num_publications;
  for (int i = 0; i < 10; ++i) {
    const auto dead = hosts.begin()->second;
    hosts.erase(hosts.begin());
    kill(dead);
  }
  ASSERT_TRUE(run_until([&] { return num_publications > before && is_ready(); }, 1s));
  EXPECT_LE(num_publications, before + 4) << "the first, the others, and that the experts of each are back";
}

TEST_F(large_cluster_test, a_join_concerns_those_who_give_something_and_who_route) {
  // Few enough hosts that each layer lives on all of them, so that one more gets a share of each.
  start({.num_hosts = 7, .num_routers = 3, .layer_experts = {64, 0, 64, 64, 64}, .max_experts = 64});
  ASSERT_TRUE(run_until([this] { return is_ready(); }, 5s));
  advance(5s);
  take_sent();
  const auto before = num_publications;
  add(false, 0s);
  advance(10s);
  const auto sent = take_sent();
  EXPECT_EQ(sent.at("welcome").messages, 1U);
  EXPECT_EQ(sent.at("view").messages, (num_publications - before) * routers.size())
      << "expert hosts are sent none";
  EXPECT_LE(num_publications - before, 2U) << "the worker, and where its experts are";
  EXPECT_EQ(sent.at("order").messages, 8U) << "it loads its share, and each of the others gives some";
}

TEST_F(large_cluster_test, what_is_sent_is_encoded_once_for_all_attention_workers) {
  start_ready();
  add(false, 0s);
  advance(10s);
  const auto sent = take_sent().at("view");
  EXPECT_GT(sent.encoded, 0U);
  EXPECT_EQ(sent.bytes, routers.size() * sent.encoded);
}

TEST_F(large_cluster_test, a_death_costs_the_layers_that_it_concerns) {
  start_ready();
  const auto welcome = [this] {
    add(true, 0s);
    advance(10s);
    return take_sent().at("welcome").bytes; // the whole view
  }();
  const auto before = newest_epoch;
  const auto dead = hosts.begin()->second;
  hosts.erase(hosts.begin());
  kill(dead);
  EXPECT_EQ(newest_epoch, before + 1);
  EXPECT_LT(take_sent().at("view").encoded, welcome / 2);
}

} // namespace
} // namespace troupe
