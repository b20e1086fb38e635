#include "actors/attention/host_book.hpp"

#include <gtest/gtest.h>

#include "actors/protocol/defaults.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

constexpr worker_id first_host{1};
constexpr worker_id second_host{2};
constexpr host_book::time_point first_time{1000s};

// One layer with one expert on `hosts`, which are all workers there are.
cluster_view view_of(const std::vector<worker_id>& hosts, std::uint64_t epoch) {
  cluster_view result;
  result.experts.epoch = epoch;
  layer_placement layer;
  layer.version = epoch;
  layer.experts.push_back({hosts});
  result.experts.layers.push_back(std::make_shared<const layer_placement>(layer));
  for (const auto id : hosts)
    result.workers.push_back({id, worker_role::expert, "host-" + std::to_string(id.value), ""});
  return result;
}

// The hosts that the rows of a batch go to.
std::vector<worker_id> asked(host_book& book, host_book::time_point now,
                             std::optional<worker_id> except = std::nullopt) {
  const std::vector<expert_entries> entries{{0, {0}}};
  std::vector<worker_id> result;
  for (const auto& share : book.plan(entries, 0, 1, except, 7, now).shares)
    result.push_back(share.host);
  return result;
}

TEST(host_book, ignores_older_views) {
  host_book book;
  ASSERT_TRUE(book.update(view_of({first_host}, 2)));
  EXPECT_FALSE(book.update(view_of({second_host}, 1)));
  EXPECT_EQ(book.routing().epoch, 2U);
  EXPECT_EQ(book.find(second_host), nullptr);
}

TEST(host_book, keeps_a_host_that_is_gone_while_it_owes_rows) {
  host_book book;
  book.update(view_of({first_host, second_host}, 1));
  book.at(first_host).outstanding_rows = 5;
  book.update(view_of({}, 2));
  EXPECT_EQ(book.gone(), (std::vector{first_host, second_host}));
  book.forget_gone();
  EXPECT_EQ(book.gone(), std::vector{first_host});
  book.at(first_host).answered(5, 0, first_time);
  book.forget_gone();
  EXPECT_TRUE(book.gone().empty());
}

TEST(host_book, asks_no_host_that_is_gone_or_excepted) {
  host_book book;
  book.update(view_of({first_host}, 1));
  EXPECT_EQ(asked(book, first_time), std::vector{first_host});
  EXPECT_TRUE(asked(book, first_time, first_host).empty());
  auto without = view_of({first_host}, 2);
  without.workers.clear();
  book.update(without);
  EXPECT_TRUE(asked(book, first_time).empty());
}

TEST(host_book, avoids_a_host_that_failed_for_longer_each_time) {
  host_book book;
  book.update(view_of({first_host}, 1));
  auto& host = book.at(first_host);
  host.avoid(first_time);
  host.avoid(first_time); // of the same failure
  EXPECT_TRUE(asked(book, first_time).empty());
  EXPECT_EQ(host.avoid_until, first_time + defaults::reconnect_min);
  EXPECT_EQ(asked(book, host.avoid_until), std::vector{first_host});
  host.avoid(first_time + 1s);
  EXPECT_EQ(host.avoid_until, first_time + 1s + 2 * defaults::reconnect_min);
  for (int i = 0; i < 20; ++i)
    host.avoid(host.avoid_until);
  EXPECT_EQ(host.pause, defaults::reconnect_max);
  host.answered(0, 0, first_time);
  EXPECT_EQ(host.pause, 0ms);
}

TEST(host_book, believes_a_contradiction_until_a_newer_placement_or_for_a_while) {
  host_book book;
  book.update(view_of({first_host}, 1));
  book.at(first_host).contradict(0, 1, first_time);
  EXPECT_TRUE(asked(book, first_time).empty());
  EXPECT_EQ(asked(book, first_time + defaults::reconnect_max), std::vector{first_host});
  book.at(first_host).contradict(0, 1, first_time);
  book.update(view_of({first_host}, 2));
  EXPECT_EQ(asked(book, first_time), std::vector{first_host});
}

TEST(host_book, prefers_the_replica_with_fewer_rows_ahead) {
  host_book book;
  book.update(view_of({first_host, second_host}, 1));
  book.at(first_host).outstanding_rows = 5;
  EXPECT_EQ(asked(book, first_time), std::vector{second_host});
  book.at(second_host).answered(0, 100, first_time); // rows of other workers
  EXPECT_EQ(asked(book, first_time), std::vector{first_host});
}

TEST(host_book, complains_of_silent_hosts_that_are_there) {
  host_book book;
  book.update(view_of({first_host, second_host}, 1));
  book.at(first_host).silent_since = first_time;
  EXPECT_TRUE(book.complaints(first_time + defaults::engine_stall).empty());
  const auto late = book.complaints(first_time + defaults::engine_stall + 1ms);
  ASSERT_EQ(late.size(), 1U);
  EXPECT_EQ(late[0].about, first_host);
  EXPECT_EQ(late[0].silent_ms, 10'001U);
  book.update(view_of({second_host}, 2));
  EXPECT_TRUE(book.complaints(first_time + 1h).empty());
}

} // namespace
} // namespace troupe
