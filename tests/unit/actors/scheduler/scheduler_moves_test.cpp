// Planners' requests to the scheduler: single moves, answered when all workers know of them, and workers that
// must hold nothing.
#include <set>

#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using ids = std::vector<worker_id>;

class scheduler_moves_test : public scheduler_fixture {
 protected:
  fleet_ptr describe() { return *ask<fleet_ptr>(fleet_of(scheduler), fleet_atom_v); }

  /// The outcome of a move.
  struct outcome {
    bool is_over = false;
    caf::error error;

    ec code() const { return error ? code_of(error) : ec::none; }
  };

  outcome& move(expert_id expert, ids from, ids to, bool waits = true) {
    auto& result = outcomes.emplace_back();
    auto asked = std::make_shared<expert_move>();
    asked->to = {expert, std::move(to)};
    asked->from = std::move(from);
    root(system.spawn([this, &result, asked = expert_move_ptr{asked}](caf::event_based_actor* self) {
      self->request(fleet_of(scheduler), std::chrono::seconds{600}, asked)
          .then([&result] { result.is_over = true; },
                [&result](caf::error& error) {
                  result.is_over = true;
                  result.error = std::move(error);
                });
    }));
    if (waits)
      settle();
    else
      run();
    return result;
  }

  void drain(std::set<std::string> names) {
    caf::anon_send(fleet_of(scheduler), std::make_shared<const std::set<std::string>>(std::move(names)));
    settle();
  }

  ids routed(expert_id expert) {
    return status().experts.layers.at(expert.layer)->experts.at(expert.index).hosts;
  }

  ids other_host(const ids& than) { return than == ids{{11}} ? ids{{12}} : ids{{11}}; }

  std::deque<outcome> outcomes;
};

TEST_F(scheduler_moves_test, a_fleet_says_who_should_hold_what) {
  start();
  EXPECT_TRUE(describe()->layer_experts.empty()) << "nobody is here";
  join(attention_hello(1));
  join(expert_hello(11, 6));
  join(expert_hello(12));
  pass(std::chrono::seconds{1});
  const auto fleet = describe();
  EXPECT_EQ(fleet->layer_experts, (std::vector<std::uint32_t>{4, 0, 4}));
  ASSERT_EQ(fleet->hosts.size(), 2U);
  EXPECT_EQ(fleet->hosts[0].name, "expert-11");
  EXPECT_EQ(fleet->hosts[0].max_experts, 6U);
  EXPECT_EQ(fleet->hosts[1].max_experts, UINT64_MAX);
  EXPECT_TRUE(fleet->is_settled);
  ASSERT_EQ(fleet->target.size(), 3U);
  for (std::uint32_t layer : {0U, 2U})
    for (std::uint32_t index = 0; index < 4; ++index)
      EXPECT_EQ(fleet->target[layer][index], routed({layer, index}));
}

TEST_F(scheduler_moves_test, a_move_is_answered_when_the_old_host_has_let_go) {
  start_ready();
  pass(std::chrono::seconds{2});
  const expert_id expert{0, 0};
  const auto from = describe()->target[0][0];
  auto& worker = peers.front();
  worker.confirms = false;
  const auto& moved = move(expert, from, other_host(from));
  pass(std::chrono::seconds{1});
  EXPECT_EQ(routed(expert), other_host(from)) << "rows go to the new host ...";
  EXPECT_FALSE(moved.is_over) << "... but a worker has not said that it knows";
  EXPECT_FALSE(describe()->is_settled);
  worker.confirms = true;
  pass(std::chrono::seconds{1});
  EXPECT_TRUE(moved.is_over);
  EXPECT_EQ(moved.code(), ec::none);
  const auto after = describe();
  EXPECT_TRUE(after->is_settled);
  EXPECT_EQ(after->target[0][0], other_host(from));
}

TEST_F(scheduler_moves_test, moves_that_do_not_fit_are_refused) {
  start_ready();
  pass(std::chrono::seconds{2});
  const auto from = describe()->target[0][0];
  EXPECT_EQ(move({0, 0}, other_host(from), from).code(), ec::cancelled) << "it is elsewhere";
  EXPECT_EQ(move({0, 0}, from, {{99}}).code(), ec::cancelled) << "nobody has that id";
  EXPECT_EQ(move({0, 0}, from, {}).code(), ec::bad_request);
  peers.front().confirms = false;
  const auto& first = move({0, 0}, from, other_host(from));
  EXPECT_EQ(move({0, 0}, other_host(from), from).code(), ec::cancelled) << "it is on its way";
  EXPECT_FALSE(first.is_over);
}

TEST_F(scheduler_moves_test, several_moves_may_begin_at_once) {
  start_ready();
  pass(std::chrono::seconds{2});
  const auto first = describe()->target[0][0];
  const auto second = describe()->target[2][1];
  const auto& one = move({0, 0}, first, other_host(first), false);
  const auto& other = move({2, 1}, second, other_host(second), false);
  pass(std::chrono::seconds{2});
  EXPECT_TRUE(one.is_over && other.is_over);
  EXPECT_EQ(one.code(), ec::none);
  EXPECT_EQ(other.code(), ec::none);
  EXPECT_EQ(routed({0, 0}), other_host(first));
  EXPECT_EQ(routed({2, 1}), other_host(second));
}

TEST_F(scheduler_moves_test, a_scheduler_without_a_placement_moves_nothing) {
  start();
  EXPECT_EQ(move({0, 0}, {}, {{11}}).code(), ec::not_ready);
}

TEST_F(scheduler_moves_test, the_death_of_the_new_host_ends_a_move) {
  start_ready();
  pass(std::chrono::seconds{2});
  const auto from = describe()->target[0][0];
  const auto to = other_host(from);
  auto& target = *std::find_if(peers.begin(), peers.end(),
                               [&to](const auto& who) { return who.hello.address.id == to.front(); });
  target.log->answers_orders = false;
  const auto& moved = move({0, 0}, from, to);
  EXPECT_FALSE(moved.is_over);
  die(target);
  pass(std::chrono::seconds{1});
  EXPECT_TRUE(moved.is_over);
  EXPECT_EQ(moved.code(), ec::cancelled);
  EXPECT_EQ(routed({0, 0}), from);
}

TEST_F(scheduler_moves_test, a_host_that_cannot_load_ends_a_move_and_the_expert_stays) {
  start_ready();
  pass(std::chrono::seconds{2});
  const auto from = describe()->target[0][0];
  const auto to = other_host(from);
  auto& target = *std::find_if(peers.begin(), peers.end(),
                               [&to](const auto& who) { return who.hello.address.id == to.front(); });
  target.log->order_error = "the file is gone";
  const auto& moved = move({0, 0}, from, to);
  pass(std::chrono::seconds{1});
  EXPECT_TRUE(moved.is_over);
  EXPECT_EQ(moved.code(), ec::engine_failed);
  EXPECT_NE(text_of(moved.error).find("the file is gone"), std::string::npos) << text_of(moved.error);
  target.log->order_error.clear();
  pass(std::chrono::seconds{20});
  EXPECT_EQ(routed({0, 0}), from);
  EXPECT_EQ(describe()->target[0][0], from);
  EXPECT_TRUE(describe()->is_settled);
}

TEST_F(scheduler_moves_test, an_expert_that_is_left_to_workers_without_files_is_loaded_by_one_that_has_them) {
  start_ready(1); // expert-11 has files, the other two have none
  for (std::uint64_t id : {12U, 13U}) {
    auto hello = expert_hello(id);
    terms_of<expert_terms>(hello).weights = weight_origin::peers;
    join(hello);
  }
  pass(std::chrono::seconds{2});
  const auto from = describe()->target[0][0];
  const ids wanted = from == ids{{12}} ? ids{{13}} : ids{{12}};
  ASSERT_EQ(move({0, 0}, from, wanted).code(), ec::none);
  pass(std::chrono::seconds{2});
  ASSERT_EQ(routed({0, 0}), wanted);
  auto& only_host = *std::find_if(peers.begin(), peers.end(), [&wanted](const auto& who) {
    return who.hello.address.id == wanted.front();
  });
  const auto num_orders = peers[1].log->orders.size();
  die(only_host);
  pass(std::chrono::seconds{5});
  const auto target = describe()->target[0][0];
  ASSERT_EQ(target.size(), 1U);
  EXPECT_EQ(routed({0, 0}), target) << "it is served again";
  const auto& orders = peers[1].log->orders; // of expert-11
  EXPECT_TRUE(std::any_of(
      orders.begin() + static_cast<std::ptrdiff_t>(num_orders), orders.end(), [](const host_order& order) {
        return std::find(order.experts.begin(), order.experts.end(), expert_id{0, 0}) != order.experts.end();
      }));
  EXPECT_TRUE(describe()->is_settled);
}

TEST_F(scheduler_moves_test, a_drained_worker_holds_nothing_also_after_it_has_joined_again) {
  start_ready();
  pass(std::chrono::seconds{2});
  pass(std::chrono::seconds{1});
  drain({"expert-12"});
  pass(std::chrono::seconds{2});
  for (std::uint32_t layer : {0U, 2U})
    for (std::uint32_t index = 0; index < 4; ++index)
      EXPECT_EQ(routed({layer, index}), (ids{{11}}));
  auto& drained = peers.back();
  EXPECT_TRUE(drained.log->hosted.empty());
  EXPECT_TRUE(describe()->hosts[1].leaves);
  EXPECT_EQ(metrics->count("worker-drained"), 1U);
  die(drained);
  join(expert_hello(13)).hello.address.name = "expert-13";
  pass(std::chrono::seconds{2});
  EXPECT_FALSE(peers.back().log->hosted.empty()) << "another one is as good as any";
  auto again = expert_hello(14);
  again.address.name = "expert-12";
  join(again);
  pass(std::chrono::seconds{2});
  EXPECT_TRUE(peers.back().log->hosted.empty());
  drain({});
  pass(std::chrono::seconds{2});
  EXPECT_FALSE(peers.back().log->hosted.empty());
  EXPECT_EQ(metrics->count("worker-undrained"), 1U);
}

} // namespace
} // namespace troupe
