// Views that the scheduler sends: changes, and the whole view on request.
#include "actors/scheduler/scheduler.hpp"

#include "actors/cluster/view_change.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class scheduler_views_test : public scheduler_fixture {
 protected:
  /// Joined with peers[0], an attention worker, and two expert hosts.
  peer& start_with_gateway() {
    start_ready();
    return join(gateway_hello(70));
  }

  static std::vector<std::uint32_t> layers_of(const view_change& change) {
    std::vector<std::uint32_t> result;
    for (const auto& changed : change.layers)
      result.push_back(changed.index);
    return result;
  }
};

TEST_F(scheduler_views_test, an_attention_worker_is_sent_the_layers_that_changed) {
  start_ready();
  pass(1s); // hosts that gave away experts have released them
  auto& attention = *peers[0].log;
  auto before = attention.held;
  attention.changes.clear();
  join(expert_hello(13));
  ASSERT_GE(attention.changes.size(), 2U) << "the worker, and what it has loaded";
  for (const auto& change : attention.changes) {
    EXPECT_EQ(change.from_epoch, before.experts.epoch) << "each goes on from the one before";
    EXPECT_EQ(change.num_layers, 3U);
    auto after = before;
    ASSERT_EQ(apply(after, change), view_misfit::none);
    std::vector<std::uint32_t> other;
    for (std::uint32_t index = 0; index < 3; ++index)
      if (*after.experts.layers[index] != *before.experts.layers[index])
        other.push_back(index);
    EXPECT_EQ(layers_of(change), other);
    before = after;
  }
  EXPECT_TRUE(attention.changes.front().layers.empty()) << "nothing is loaded yet";
  EXPECT_EQ(attention.changes.front().joined, (std::vector{peers.back().hello.address}));
  EXPECT_FALSE(attention.changes.back().layers.empty());
  EXPECT_TRUE(attention.changes.back().joined.empty());
  EXPECT_EQ(attention.held.experts, status().experts);
}

TEST_F(scheduler_views_test, a_death_names_the_worker_and_the_layers_that_lost_it) {
  start_ready();
  pass(1s); // no other host has its experts
  auto& attention = *peers[0].log;
  attention.changes.clear();
  die(peers[2]);
  ASSERT_GE(attention.changes.size(), 2U);
  EXPECT_EQ(attention.changes[0].left, (std::vector<worker_id>{{12}}));
  EXPECT_TRUE(attention.changes[0].joined.empty());
  EXPECT_EQ(layers_of(attention.changes[0]), (std::vector<std::uint32_t>{0, 2}));
  EXPECT_FALSE(attention.changes[0].ready);
  for (std::size_t index = 1; index < attention.changes.size(); ++index)
    EXPECT_TRUE(attention.changes[index].left.empty()) << "told once";
  EXPECT_TRUE(attention.held.ready);
  EXPECT_EQ(attention.held.experts, status().experts);
}

TEST_F(scheduler_views_test, a_gateway_is_sent_workers_and_readiness_and_no_layer) {
  auto& gateway = start_with_gateway();
  const auto& welcome = *gateway.log->welcome->view;
  EXPECT_EQ(welcome.from_epoch, 0U);
  EXPECT_EQ(welcome.joined.size(), 3U);
  EXPECT_TRUE(welcome.ready);
  EXPECT_TRUE(welcome.layers.empty());
  die(peers[2]);
  join(expert_hello(13));
  ASSERT_FALSE(gateway.log->changes.empty());
  for (const auto& change : gateway.log->changes) {
    EXPECT_EQ(change.num_layers, 0U);
    EXPECT_TRUE(change.layers.empty());
  }
  const auto& attention = peers[0].log->held;
  EXPECT_EQ(gateway.log->held.workers, attention.workers);
  EXPECT_EQ(gateway.log->held.ready, attention.ready);
  EXPECT_EQ(gateway.log->held.max_model_len, attention.max_model_len);
  EXPECT_EQ(gateway.log->held.experts.epoch, attention.experts.epoch);
}

TEST_F(scheduler_views_test, who_has_missed_a_change_asks_and_gets_all_that_is_for_its_role) {
  auto& gateway = start_with_gateway();
  const auto of = [this](std::uint64_t id) {
    return ask<shared_view_change>(scheduler, view_atom_v, worker_id{id});
  };
  cluster_view at_attention;
  ASSERT_EQ(apply(at_attention, **of(1)), view_misfit::none);
  EXPECT_EQ(at_attention, peers[0].log->held);
  EXPECT_EQ(at_attention.experts, status().experts);
  cluster_view at_gateway;
  ASSERT_EQ(apply(at_gateway, **of(70)), view_misfit::none);
  EXPECT_EQ(at_gateway, gateway.log->held);
  EXPECT_TRUE(at_gateway.experts.layers.empty());
  EXPECT_EQ(**of(11), view_change{}) << "an expert host goes by its orders";
  const auto stranger = of(99);
  ASSERT_FALSE(stranger);
  EXPECT_EQ(code_of(stranger.error()), ec::not_ready);
  EXPECT_EQ(metrics->count("view-missed"), 3U);
}

TEST_F(scheduler_views_test, a_welcome_and_the_changes_after_it_make_the_view_of_all_others) {
  start_ready();
  auto& late = join(attention_hello(2));
  EXPECT_EQ(late.log->welcome->view->from_epoch, 0U);
  EXPECT_EQ(late.log->welcome->view->layers.size(), 3U);
  for (std::uint64_t id = 13; id <= 16; ++id) {
    join(expert_hello(id));
    pass(1s);
  }
  die(peers[1]);
  pass(1s);
  EXPECT_EQ(late.log->held, peers[0].log->held);
  EXPECT_EQ(late.log->held.experts, status().experts);
  for (const auto& change : late.log->changes)
    EXPECT_GT(change.from_epoch, 0U) << "nothing is sent whole again";
}

TEST_F(scheduler_views_test, whoever_joins_again_is_no_news) {
  start_ready();
  auto& attention = *peers[0].log;
  attention.changes.clear();
  join_again(peers[1]);
  ASSERT_FALSE(attention.changes.empty());
  for (const auto& change : attention.changes) {
    EXPECT_TRUE(change.joined.empty());
    EXPECT_TRUE(change.left.empty());
  }
}

TEST_F(scheduler_views_test, a_new_term_begins_with_the_whole_view) {
  start_ready();
  auto& attention = *peers[0].log;
  const auto before = attention.held;
  attention.changes.clear();
  auto newer = expert_hello(13);
  newer.term = 5;
  join(newer);
  ASSERT_FALSE(attention.changes.empty());
  const auto& first = attention.changes.front();
  EXPECT_EQ(first.term, 6U);
  EXPECT_EQ(first.from_epoch, 0U);
  EXPECT_EQ(layers_of(first), (std::vector<std::uint32_t>{0, 1, 2}));
  EXPECT_EQ(first.joined.size(), 4U);
  for (std::size_t index = 1; index < attention.changes.size(); ++index) {
    EXPECT_EQ(attention.changes[index].term, 6U);
    EXPECT_GT(attention.changes[index].from_epoch, 0U);
  }
  EXPECT_EQ(attention.held.experts, status().experts);
  EXPECT_EQ(attention.held.experts.layers[1], before.experts.layers[1]) << "a dense layer is what it was";
}

} // namespace
} // namespace troupe
