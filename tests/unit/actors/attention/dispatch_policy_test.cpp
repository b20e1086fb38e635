#include "actors/attention/dispatch_policy.hpp"

#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {
namespace {

constexpr worker_id a{1};
constexpr worker_id b{2};
constexpr worker_id c{3};

host_knowledge idle() {
  return {[](worker_id) { return true; }, [](worker_id) { return std::uint64_t{0}; }};
}

layer_placement hosts_of(std::vector<std::vector<worker_id>> hosts) {
  layer_placement result;
  for (auto& entry : hosts)
    result.experts.push_back({std::move(entry)});
  return result;
}

TEST(dispatch_policy, a_row_that_needs_two_experts_of_a_host_travels_once) {
  // Rows 0 and 2 of three, top-2: row 0 → experts 0 and 1, row 2 → experts 1 and 2.
  const std::vector<expert_entries> entries{{0, {0}}, {1, {1, 4}}, {2, {5}}};
  const auto plan = plan_dispatch(entries, 0, 2, hosts_of({{a}, {a}, {a}}), idle(), 1);
  ASSERT_EQ(plan.shares.size(), 1U);
  const auto& share = plan.shares[0];
  EXPECT_EQ(share.host, a);
  EXPECT_EQ(share.travelling, (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(share.experts, (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(share.offsets, (std::vector<std::uint32_t>{0, 1, 3, 4}));
  EXPECT_EQ(share.rows, (std::vector<std::uint32_t>{0, 0, 1, 1}));
  EXPECT_EQ(share.slots, (std::vector<std::uint32_t>{0, 1, 4, 5}));
  EXPECT_TRUE(plan.homeless.empty());
}

TEST(dispatch_policy, what_nobody_can_compute_is_homeless) {
  const std::vector<expert_entries> entries{{0, {0}}, {1, {1}}, {2, {2}}, {9, {3}}};
  auto hosts = idle();
  hosts.usable = [](worker_id host) { return host != b; };
  const auto plan = plan_dispatch(entries, 0, 2, hosts_of({{a}, {b}, {}}), hosts, 1);
  ASSERT_EQ(plan.shares.size(), 1U);
  EXPECT_EQ(plan.homeless, (std::vector<expert_entries>{entries[1], entries[2], entries[3]}));
}

TEST(dispatch_policy, of_two_replicas_the_less_loaded_gets_it) {
  const std::vector<expert_entries> entries{{0, {0, 2}}};
  auto hosts = idle();
  hosts.ahead = [](worker_id host) { return host == a ? std::uint64_t{5} : std::uint64_t{4}; };
  for (std::uint64_t salt = 0; salt < 50; ++salt) {
    const auto plan = plan_dispatch(entries, 0, 2, hosts_of({{a, b}}), hosts, salt);
    ASSERT_EQ(plan.shares.size(), 1U);
    EXPECT_EQ(plan.shares[0].host, b);
  }
}

TEST(queue_news, counts_what_is_of_others_and_fades) {
  using namespace std::chrono_literals;
  const queue_news::time_point start{1000s};
  queue_news news;
  EXPECT_EQ(news.rows(start), 0U);
  news.heard(80, 30, start);
  EXPECT_EQ(news.rows(start), 50U);
  EXPECT_EQ(news.rows(start + defaults::queue_news / 2), 25U);
  EXPECT_EQ(news.rows(start + defaults::queue_news), 0U);
  news.heard(20, 30, start + 1s); // batches under way were not in its queue
  EXPECT_EQ(news.rows(start + 1s), 0U);
}

TEST(dispatch_policy, counts_what_the_plan_itself_gives) {
  std::vector<expert_entries> entries;
  std::vector<std::vector<worker_id>> hosts;
  for (std::uint32_t expert = 0; expert < 8; ++expert) {
    entries.push_back({expert, {expert * 2, expert * 2 + 1}});
    hosts.push_back({a, b});
  }
  const auto plan = plan_dispatch(entries, 3, 2, hosts_of(hosts), idle(), 7);
  ASSERT_EQ(plan.shares.size(), 2U);
  EXPECT_EQ(plan.shares[0].slots.size(), plan.shares[1].slots.size());
}

TEST(dispatch_policy, is_a_function_of_its_arguments_and_spreads_ties) {
  const std::vector<expert_entries> entries{{0, {0}}};
  std::map<worker_id, int> chosen;
  for (std::uint64_t salt = 0; salt < 300; ++salt) {
    const auto first = plan_dispatch(entries, 1, 1, hosts_of({{a, b, c}}), idle(), salt);
    const auto again = plan_dispatch(entries, 1, 1, hosts_of({{a, b, c}}), idle(), salt);
    EXPECT_EQ(first.shares[0].host, again.shares[0].host);
    ++chosen[first.shares[0].host];
  }
  for (const auto host : {a, b, c})
    EXPECT_GT(chosen[host], 50);
}

TEST(dispatch_policy, entries_leave_out_idle_experts_and_refuse_broken_tables) {
  moe_dispatch dispatch;
  dispatch.layer = 5;
  dispatch.num_rows = 2;
  dispatch.num_topk = 2;
  dispatch.offsets = {0, 1, 1, 4};
  dispatch.slots = {2, 0, 1, 3};
  std::string error;
  EXPECT_EQ(entries_of(dispatch, error), (std::vector<expert_entries>{{0, {2}}, {2, {0, 1, 3}}}));
  EXPECT_EQ(error, "");
  for (const auto& offsets : {std::vector<std::uint32_t>{}, {0, 1, 3}, {1, 2, 4}, {0, 3, 2, 4}}) {
    auto broken = dispatch;
    broken.offsets = offsets;
    error.clear();
    EXPECT_TRUE(entries_of(broken, error).empty());
    EXPECT_EQ(error, "the engine's table for layer 5 is malformed");
  }
  dispatch.slots[0] = 4;
  error.clear();
  EXPECT_TRUE(entries_of(dispatch, error).empty());
  EXPECT_NE(error, "");
}

// Every slot comes back exactly once and refers to its own row, whatever the placement.
TEST(dispatch_policy, loses_and_doubles_nothing) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random{seed};
    const auto below = [&](std::uint32_t n) {
      return std::uniform_int_distribution<std::uint32_t>{0, n - 1}(random);
    };
    const auto rows = 1 + below(40);
    const auto topk = 1 + below(4);
    std::vector<expert_entries> entries;
    for (std::uint32_t expert = 0; expert < 8; ++expert)
      entries.push_back({expert, {}});
    for (std::uint32_t slot = 0; slot < rows * topk; ++slot)
      entries[below(8)].slots.push_back(slot);
    std::erase_if(entries, [](const expert_entries& entry) { return entry.slots.empty(); });
    std::vector<std::vector<worker_id>> hosts(8);
    for (auto& replicas : hosts)
      for (const auto host : {a, b, c})
        if (below(2) == 0)
          replicas.push_back(host);
    const auto plan = plan_dispatch(entries, 0, topk, hosts_of(hosts), idle(), seed);
    std::multiset<std::uint32_t> seen;
    for (const auto& share : plan.shares) {
      ASSERT_EQ(share.offsets.size(), share.experts.size() + 1);
      ASSERT_EQ(share.rows.size(), share.slots.size());
      ASSERT_TRUE(std::is_sorted(share.experts.begin(), share.experts.end()));
      for (std::size_t i = 0; i < share.slots.size(); ++i) {
        ASSERT_EQ(share.travelling.at(share.rows[i]), share.slots[i] / topk);
        seen.insert(share.slots[i]);
      }
      const std::set<std::uint32_t> distinct(share.travelling.begin(), share.travelling.end());
      ASSERT_EQ(distinct.size(), share.travelling.size());
    }
    for (const auto& entry : plan.homeless) {
      ASSERT_TRUE(hosts[entry.expert].empty());
      seen.insert(entry.slots.begin(), entry.slots.end());
    }
    ASSERT_EQ(seen.size(), rows * topk);
    ASSERT_EQ((std::set<std::uint32_t>(seen.begin(), seen.end()).size()), rows * topk);
  }
}

} // namespace
} // namespace troupe
