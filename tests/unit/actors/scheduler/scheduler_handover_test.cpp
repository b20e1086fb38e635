// When the scheduler announces that an expert worker is ready, and when it lets a worker leave.
#include <map>
#include <memory>
#include <set>
#include <string>

#include "actors/scheduler/scheduler.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class handover_test : public scheduler_fixture {
 protected:
  /// Joins, and answers orders only on command.
  peer& join_slow(worker_hello hello) {
    auto& added = peers.emplace_back();
    added.hello = std::move(hello);
    added.load.id = added.hello.address.id;
    added.log->answers_orders = false;
    added.member = root(system.spawn(fake_member, added.log));
    join_again(added);
    return added;
  }

  /// Loads its orders, present and later ones.
  void load(peer& who) {
    who.log->answers_orders = true;
    caf::anon_send(who.member, caf::tick_atom_v);
    settle();
  }

  peer& join_gateway() { return join(gateway_hello(70)); }

  void leave(std::uint64_t id) {
    has_left[id] = false;
    root(system.spawn([this, id](caf::event_based_actor* self) -> caf::behavior {
      self->request(scheduler, caf::infinite, caf::leave_atom_v, worker_id{id})
          .then([this, id] { has_left[id] = true; }, [this, id](const caf::error&) { ++num_refused[id]; });
      return {[](int) {}};
    }));
    settle();
  }

  std::map<std::uint64_t, bool> has_left;
  std::map<std::uint64_t, std::size_t> num_refused;
};

TEST_F(handover_test, a_worker_is_ready_when_it_holds_what_its_joining_made_it_hold) {
  start_ready(2);
  EXPECT_EQ(peers[1].log->readies, 1U);
  auto& late = join_slow(expert_hello(13));
  ASSERT_EQ(late.log->orders.size(), 1U);
  pass(60s);
  EXPECT_EQ(late.log->readies, 0U) << "it loads";
  load(late);
  EXPECT_EQ(late.log->readies, 1U);
  pass(60s);
  EXPECT_EQ(late.log->readies, 1U) << "once is enough";
  EXPECT_EQ(peers[1].log->readies, 1U) << "others have given experts away";
}

TEST_F(handover_test, a_worker_that_joins_again_is_told_again) {
  start_ready(2);
  peers[1].log->answers_orders = false;
  join_again(peers[1]);
  EXPECT_EQ(peers[1].log->readies, 2U) << "it holds everything";
}

TEST_F(handover_test, a_worker_that_is_to_hold_nothing_is_ready_at_once) {
  start_ready(2);
  caf::anon_send(fleet_of(scheduler),
                 std::make_shared<const std::set<std::string>>(std::set<std::string>{"expert-14"}));
  run();
  auto& drained = join(expert_hello(14));
  EXPECT_TRUE(drained.log->orders.empty());
  EXPECT_EQ(drained.log->readies, 1U);
}

TEST_F(handover_test, a_worker_that_cannot_load_is_not_ready) {
  start_ready(2);
  auto& broken = join_slow(expert_hello(13));
  broken.log->answers_orders = true;
  broken.log->order_error = "the disk is gone";
  caf::anon_send(broken.member, caf::put_atom_v,
                 host_report{1, broken.log->orders.back().order, {}, "the disk is gone"});
  pass(30s);
  EXPECT_GT(broken.log->orders.size(), 2U) << "it is asked again";
  EXPECT_EQ(broken.log->readies, 0U);
  broken.log->order_error.clear();
  pass(defaults::host_order_retry_max);
  EXPECT_EQ(broken.log->readies, 1U);
}

TEST_F(handover_test, nobody_is_ready_before_the_first_placement) {
  start({.min_expert_workers = 2});
  join(attention_hello(1));
  auto& first = join(expert_hello(11));
  pass(5s);
  EXPECT_EQ(first.log->readies, 0U) << "what it will hold is not known";
  join(expert_hello(12));
  EXPECT_EQ(first.log->readies, 1U);
}

TEST_F(handover_test, two_hosts_that_leave_at_once_stay_until_a_third_has_loaded_what_they_hold) {
  start_ready(2, {.num_replicas = 2});
  join_gateway();
  auto& late = join_slow(expert_hello(13));
  leave(11);
  leave(12);
  pass(120s);
  EXPECT_EQ(has_left, (std::map<std::uint64_t, bool>{{11, false}, {12, false}}));
  EXPECT_TRUE(peers[0].log->is_ready()) << "they serve on";
  EXPECT_EQ(late.log->readies, 0U);
  load(late);
  pass(1s); // the attention worker confirms
  EXPECT_EQ(late.log->readies, 1U);
  EXPECT_EQ(has_left, (std::map<std::uint64_t, bool>{{11, true}, {12, true}}));
  EXPECT_TRUE(peers[0].log->is_ready());
}

TEST_F(handover_test, who_leaves_goes_where_others_have_no_room_for_another_copy) {
  start_ready(2, {.num_replicas = 2});
  join_gateway();
  leave(12);
  pass(1s);
  EXPECT_TRUE(has_left[12]) << "the other one holds everything, too";
}

TEST_F(handover_test, the_last_host_stays_for_those_who_come_in_its_place) {
  start_ready(1);
  join_gateway();
  leave(11);
  pass(60s);
  EXPECT_FALSE(has_left[11]) << "nothing runs, but somebody may ask";
  EXPECT_TRUE(peers[0].log->is_ready());
  join(expert_hello(12));
  pass(1s);
  EXPECT_TRUE(has_left[11]);
  EXPECT_TRUE(peers[0].log->is_ready());
}

TEST_F(handover_test, the_last_hosts_go_with_the_last_gateway) {
  start_ready(2);
  join_gateway();
  leave(11);
  leave(12);
  leave(1);
  pass(10s);
  EXPECT_EQ(has_left, (std::map<std::uint64_t, bool>{{1, true}, {11, false}, {12, false}}));
  leave(70);
  settle();
  EXPECT_EQ(has_left, (std::map<std::uint64_t, bool>{{1, true}, {11, true}, {12, true}, {70, true}}));
}

TEST_F(handover_test, a_scheduler_that_ends_sends_who_leaves_to_the_next_one) {
  start_ready(1);
  join_gateway();
  leave(11);
  caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
  run();
  EXPECT_FALSE(has_left[11]);
  EXPECT_EQ(num_refused[11], 1U);
}

TEST_F(handover_test, the_next_scheduler_lets_nobody_go_before_the_others_have_come_back) {
  start_ready(2);
  auto& gateway = join_gateway();
  kill(scheduler);
  for (auto& who : peers)
    who.renews = false;
  start();
  const auto come_back = [this](peer& who) {
    join_again(who);
    who.renews = true;
  };
  come_back(peers[1]);
  leave(11);
  EXPECT_FALSE(has_left[11]) << "it may be the only one that holds its experts";
  for (auto* who : {&peers[0], &peers[2], &gateway})
    come_back(*who);
  EXPECT_FALSE(has_left[11]);
  pass(defaults::recovery_limit + 2s);
  EXPECT_TRUE(has_left[11]) << "the other host has everything now";
  EXPECT_TRUE(peers[0].log->is_ready());
}

} // namespace
} // namespace troupe
