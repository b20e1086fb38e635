// From members to targets and back: rescues, drains, room, planners' moves. Without an actor.
#include <gtest/gtest.h>

#include "actors/scheduler/expert_desk.hpp"
#include "actors/scheduler/move_desk.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"

namespace troupe {
namespace {

using ids = std::vector<worker_id>;

struct expert_desk_test : testing::Test {
  void join(const worker_hello& hello) {
    members.join(hello, {});
    desk.joined(hello, {2}, members);
  }

  /// Carries out all orders, and publishes, until nothing is left to do.
  void settle() {
    desk.repair(members);
    for (bool goes_on = true; std::exchange(goes_on, false);) {
      const auto hosts = desk.rollout().hosts_with_orders();
      for (auto id : hosts)
        if (const auto order = desk.rollout().next_order(id)) {
          desk.rollout().reported(id, *order);
          goes_on = true;
        }
      if (desk.rollout().wants_route()) {
        desk.rollout().route(1, ++epoch);
        goes_on = true;
      }
    }
  }

  ids hosts(std::uint32_t index) const { return desk.target().hosts({0, index}); }

  caf::error move(std::uint32_t index, const ids& from, const ids& to) {
    const expert_move asked{{{0, index}, to}, from};
    auto error = moves.check(asked, desk, members);
    if (!error)
      moves.begin(asked, desk, [this](const caf::error& why) { outcomes.push_back(code_of(why)); });
    return error;
  }

  member_table members;
  expert_desk desk{1, 1};
  move_desk moves;
  std::vector<ec> outcomes;
  std::uint64_t epoch = 0;
};

TEST_F(expert_desk_test, the_first_target_waits_for_enough_hosts) {
  desk = expert_desk{1, 2};
  join(expert_hello(11));
  desk.repair(members);
  EXPECT_FALSE(desk.has_target());
  EXPECT_TRUE(desk.take_ready().empty());
  EXPECT_TRUE(desk.describe(members, false, false)->layer_experts.empty());
  join(expert_hello(12));
  desk.repair(members);
  EXPECT_TRUE(desk.has_target());
  EXPECT_TRUE(desk.take_ready().empty()) << "they have to load first";
  settle();
  EXPECT_EQ(desk.take_ready(), (ids{{11}, {12}}));
  EXPECT_TRUE(desk.take_ready().empty());
  EXPECT_TRUE(desk.describe(members, false, false)->is_settled);
  EXPECT_FALSE(desk.describe(members, false, true)->is_settled);
  EXPECT_TRUE(desk.describe(members, true, false)->layer_experts.empty());
}

TEST_F(expert_desk_test, who_leaves_before_the_model_is_known_is_given_nothing) {
  for (std::uint64_t id : {11U, 12U}) {
    members.join(expert_hello(id), {});
    desk.joined(expert_hello(id), {}, members);
  }
  desk.retire({11});
  desk.adopt_model({2}, members);
  settle();
  EXPECT_EQ(hosts(0), (ids{{12}}));
  EXPECT_EQ(hosts(1), (ids{{12}}));
  join(expert_hello(11));
  EXPECT_FALSE(desk.takes_nothing({11}, "expert-11")) << "it has joined again";
}

TEST_F(expert_desk_test, what_is_loaded_has_been_placed) {
  desk = expert_desk{1, 2};
  auto hello = expert_hello(11);
  hello.term = 1;
  terms_of<expert_terms>(hello).hosted = {{0, 0}};
  join(hello);
  EXPECT_TRUE(desk.has_target());
}

TEST_F(expert_desk_test, drained_workers_hold_nothing) {
  join(expert_hello(11));
  join(expert_hello(12));
  settle();
  const auto events = desk.set_drained({"expert-11", "one that is not here"}, members);
  ASSERT_TRUE(events);
  ASSERT_EQ(events->size(), 1U);
  EXPECT_STREQ(events->front().name, "worker-drained");
  EXPECT_FALSE(desk.set_drained({"expert-11", "one that is not here"}, members)) << "nothing is new";
  EXPECT_TRUE(desk.takes_nothing({11}, "expert-11"));
  settle();
  EXPECT_EQ(hosts(0), (ids{{12}}));
  EXPECT_EQ(hosts(1), (ids{{12}}));
  EXPECT_STREQ(desk.set_drained({}, members)->front().name, "worker-undrained");
  desk.retire({12});
  EXPECT_TRUE(desk.takes_nothing({12}, "expert-12"));
  settle();
  EXPECT_EQ(hosts(0), (ids{{11}}));
}

TEST_F(expert_desk_test, room_is_told_when_it_changes) {
  join(expert_hello(11, 1));
  settle();
  const auto shortage = desk.check_room();
  ASSERT_TRUE(shortage && shortage->event);
  EXPECT_EQ(shortage->num_without, 1U);
  EXPECT_STREQ(shortage->event->name, "experts-without-room");
  EXPECT_FALSE(desk.check_room());
  join(expert_hello(12, 1));
  settle();
  const auto enough = desk.check_room();
  ASSERT_TRUE(enough && enough->event);
  EXPECT_EQ(enough->event->text, "every expert has a worker with room for it again");
}

TEST_F(expert_desk_test, an_expert_that_nobody_has_loaded_goes_to_a_worker_with_files_first) {
  auto fileless = expert_hello(11);
  terms_of<expert_terms>(fileless).weights = weight_origin::peers;
  join(fileless);
  desk.repair(members);
  EXPECT_EQ(hosts(0), (ids{{11}})) << "there is no other";
  join(expert_hello(12));
  desk.repair(members);
  EXPECT_EQ(hosts(0), (ids{{12}}));
  EXPECT_EQ(hosts(1), (ids{{12}}));
  const auto num_planned = [this] {
    return desk.target().is_planned({0, 0}) + desk.target().is_planned({0, 1});
  };
  EXPECT_GT(num_planned(), 0);
  settle();
  settle();
  EXPECT_EQ(num_planned(), 0) << "once loaded, they may move";
}

TEST_F(expert_desk_test, a_move_is_answered_when_it_is_carried_out) {
  join(expert_hello(11));
  join(expert_hello(12));
  settle();
  const auto from = hosts(0);
  const auto to = from == ids{{11}} ? ids{{12}} : ids{{11}};
  EXPECT_EQ(code_of(move(0, to, from)), ec::cancelled) << "it is elsewhere";
  EXPECT_EQ(code_of(move(0, from, {{99}})), ec::cancelled) << "nobody has that id";
  EXPECT_EQ(code_of(move(0, from, {})), ec::bad_request);
  EXPECT_FALSE(move(0, from, to));
  EXPECT_EQ(code_of(move(0, to, from)), ec::cancelled) << "it is on its way";
  moves.finish(desk, members);
  EXPECT_TRUE(outcomes.empty());
  settle();
  moves.finish(desk, members);
  EXPECT_EQ(outcomes, std::vector{ec::none});
  EXPECT_TRUE(moves.is_empty());
}

TEST_F(expert_desk_test, a_move_ends_with_its_host) {
  join(expert_hello(11));
  join(expert_hello(12));
  settle();
  const auto from = hosts(0);
  const worker_id to = from == ids{{11}} ? worker_id{12} : worker_id{11};
  move(0, from, {to});
  moves.abandon(from.front(), "it is full", desk, members);
  EXPECT_TRUE(outcomes.empty()) << "another host has failed";
  moves.abandon(to, "it is full", desk, members);
  EXPECT_EQ(outcomes, std::vector{ec::engine_failed});
  EXPECT_EQ(hosts(0), from);
  move(0, from, {to});
  desk.removed(to);
  members.remove(to);
  settle();
  moves.finish(desk, members);
  EXPECT_EQ(outcomes, (std::vector{ec::engine_failed, ec::cancelled}));
  move(0, from, from);
  moves.shut_down(make_error(ec::shutting_down, "over"));
  EXPECT_EQ(outcomes.back(), ec::shutting_down);
}

} // namespace
} // namespace troupe
