#include "tests/unit/actors/cluster/member_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

TEST_F(member_test, joins_with_the_workers_hello_and_passes_the_view_on) {
  start_scheduler();
  start_member();
  ASSERT_EQ(schedule->hellos.size(), 1U);
  EXPECT_EQ(schedule->hellos[0].address.name, "expert-11");
  EXPECT_EQ(schedule->hellos[0].term, 0U);
  ASSERT_EQ(log->views.size(), 1U);
  EXPECT_TRUE(log->schedulers.empty()) << "only a gateway wants to know the scheduler";
}

TEST_F(member_test, looks_for_the_scheduler_with_growing_pauses) {
  start_member();
  advance(3s);
  EXPECT_TRUE(schedule->hellos.empty());
  start_scheduler();
  advance(defaults::reconnect_max);
  EXPECT_EQ(schedule->hellos.size(), 1U);
}

TEST_F(member_test, a_join_without_an_answer_is_tried_again) {
  schedule->answers_joins = false;
  start_scheduler();
  start_member();
  advance(defaults::connect_timeout + defaults::reconnect_max);
  EXPECT_EQ(schedule->hellos.size(), 2U);
  schedule->answers_joins = true;
  advance(defaults::connect_timeout + defaults::reconnect_max);
  EXPECT_EQ(schedule->hellos.size(), 3U);
  EXPECT_EQ(log->views.size(), 1U);
}

TEST_F(member_test, renews_the_lease_with_the_load_and_the_view) {
  start_scheduler();
  start_member();
  from_scheduler(view_of(1, 7));
  schedule->renewals.clear();
  advance(2s);
  ASSERT_EQ(schedule->renewals.size(), 4U) << "every " << defaults::lease_interval.count() << " ms";
  EXPECT_EQ(schedule->renewals[3].id.value, 11U);
  EXPECT_EQ(schedule->renewals[3].running, 3U);
  EXPECT_EQ(schedule->renewals[3].term, 1U);
  EXPECT_EQ(schedule->renewals[3].epoch, 7U);
}

TEST_F(member_test, a_worker_that_is_stuck_loses_its_lease) {
  start_scheduler();
  start_member();
  log->answers_load = false;
  schedule->renewals.clear();
  advance(3s);
  EXPECT_TRUE(schedule->renewals.empty());
}

TEST_F(member_test, an_expert_worker_is_ready_when_the_scheduler_says_that_it_holds_its_share) {
  start_scheduler();
  start_member();
  EXPECT_EQ(pulse->why_not_ready(), "has yet to load the experts that it is to hold");
  from_scheduler(ready_atom_v);
  EXPECT_EQ(pulse->why_not_ready(), "");
}

TEST_F(member_test, an_expert_worker_is_ready_at_once_where_an_older_scheduler_would_never_say_so) {
  schedule->tells_ready = false;
  start_scheduler();
  start_member();
  EXPECT_EQ(pulse->why_not_ready(), "");
}

TEST_F(member_test, tells_the_probes_that_it_has_joined_and_that_its_worker_is_silent) {
  start_member(worker_role::attention);
  EXPECT_EQ(pulse->why_not_ready(), "looks for a scheduler");
  start_scheduler();
  advance(defaults::reconnect_max);
  EXPECT_EQ(pulse->why_not_ready(), "");
  log->answers_load = false;
  advance(defaults::worker_silence - 1s);
  EXPECT_EQ(flaw(), "");
  advance(2s);
  EXPECT_EQ(flaw().substr(0, 35), "the worker has not said its load fo");
}

TEST_F(member_test, is_as_ready_as_it_was_while_the_scheduler_is_away_and_not_when_it_leaves) {
  start_scheduler();
  start_member();
  kill(scheduler);
  EXPECT_EQ(pulse->why_not_ready(), "looks for a scheduler");
  start_scheduler();
  advance(defaults::reconnect_max);
  from_scheduler(ready_atom_v);
  kill(scheduler);
  EXPECT_EQ(pulse->why_not_ready(), "");
  caf::anon_send(member, caf::leave_atom_v);
  run();
  EXPECT_EQ(pulse->why_not_ready(), "leaves the cluster");
}

TEST_F(member_test, who_is_fenced_is_not_ready_until_it_has_joined_and_is_so_again) {
  start_scheduler();
  start_member();
  from_scheduler(ready_atom_v);
  schedule->refusal = make_error(ec::not_ready, "its engine hangs");
  from_scheduler(fence_atom_v);
  advance(5s);
  EXPECT_EQ(pulse->why_not_ready(), "looks for a scheduler");
  schedule->refusal = {};
  advance(defaults::reconnect_max);
  EXPECT_EQ(pulse->why_not_ready(), "has yet to load the experts that it is to hold");
  from_scheduler(ready_atom_v);
  EXPECT_EQ(pulse->why_not_ready(), "");
}

TEST_F(member_test, drops_views_of_older_terms_and_epochs) {
  start_scheduler();
  schedule->term = 3;
  start_member();
  from_scheduler(view_of(3, 5));
  from_scheduler(view_of(3, 4));
  from_scheduler(view_of(3, 5));
  from_scheduler(view_of(2, 9));
  from_scheduler(view_of(4, 0));
  ASSERT_EQ(log->views.size(), 2U);
  EXPECT_EQ(log->views.back().experts.epoch, 5U);
  from_scheduler(view_of(4, 1));
  EXPECT_EQ(log->views.size(), 3U);
}

TEST_F(member_test, takes_changes_into_the_view_and_confirms_the_last) {
  start_scheduler();
  start_member(worker_role::attention);
  auto joined = *change_of(1, 1, 2);
  joined.num_layers = 2;
  joined.layers = {{0, shared_layer({1, {{{{11}}}}})}, {1, shared_layer({1, {}})}};
  joined.joined = {{{11}, worker_role::expert, "expert-11", ""}};
  from_scheduler(shared_view_change{joined});
  auto moved = *change_of(1, 2, 3);
  moved.num_layers = 2;
  moved.layers = {{0, shared_layer({2, {{{{12}}}}})}};
  moved.joined = {{{12}, worker_role::expert, "expert-12", ""}};
  moved.left = {{11}};
  moved.ready = true;
  from_scheduler(shared_view_change{moved});
  ASSERT_EQ(log->views.size(), 3U);
  EXPECT_EQ(
      log->views[1],
      (cluster_view{{1, 2, {joined.layers[0].layer, joined.layers[1].layer}}, joined.joined, false, 0}));
  EXPECT_EQ(log->views[2],
            (cluster_view{{1, 3, {moved.layers[0].layer, joined.layers[1].layer}}, moved.joined, true, 0}));
  EXPECT_EQ(log->views[2].experts.layers[1], joined.layers[1].layer) << "the same object";
  schedule->renewals.clear();
  advance(defaults::lease_interval);
  ASSERT_EQ(schedule->renewals.size(), 1U);
  EXPECT_EQ(schedule->renewals[0].epoch, 3U);
  EXPECT_TRUE(schedule->asked_whole.empty());
}

TEST_F(member_test, asks_for_the_whole_view_when_it_has_missed_a_change) {
  start_scheduler();
  start_member();
  schedule->whole = view_of(1, 3);
  from_scheduler(change_of(1, 2, 3)); // it has epoch 1
  EXPECT_EQ(schedule->asked_whole, (std::vector<worker_id>{{11}}));
  ASSERT_EQ(log->views.size(), 2U);
  EXPECT_EQ(log->views.back().experts.epoch, 3U);
  from_scheduler(change_of(1, 3, 4));
  EXPECT_EQ(log->views.back().experts.epoch, 4U) << "and goes on from there";
  EXPECT_EQ(schedule->asked_whole.size(), 1U);
}

TEST_F(member_test, guesses_nothing_and_confirms_nothing_until_it_has_the_whole_view) {
  start_scheduler();
  start_member();
  from_scheduler(change_of(1, 2, 3));
  from_scheduler(change_of(1, 3, 4));
  EXPECT_EQ(schedule->asked_whole.size(), 1U) << "one question at a time";
  schedule->renewals.clear();
  advance(defaults::connect_timeout - 10ms);
  EXPECT_EQ(log->views.size(), 1U);
  EXPECT_EQ(schedule->asked_whole.size(), 1U);
  ASSERT_FALSE(schedule->renewals.empty());
  for (const auto& renewal : schedule->renewals)
    EXPECT_EQ(renewal.epoch, 1U);
  schedule->whole = view_of(1, 4);
  advance(2 * defaults::lease_interval);
  EXPECT_EQ(schedule->asked_whole.size(), 2U) << "the first was not answered in time";
  EXPECT_EQ(log->views.back().experts.epoch, 4U);
  advance(10s);
  EXPECT_EQ(schedule->asked_whole.size(), 2U);
}

TEST_F(member_test, an_answer_that_is_too_old_is_asked_for_again) {
  start_scheduler();
  start_member();
  schedule->whole = view_of(1, 2);
  from_scheduler(change_of(1, 4, 5));
  EXPECT_EQ(log->views.back().experts.epoch, 2U) << "better than before";
  schedule->whole = view_of(1, 5);
  advance(defaults::lease_interval);
  EXPECT_EQ(log->views.back().experts.epoch, 5U);
  EXPECT_EQ(schedule->asked_whole.size(), 2U);
}

TEST_F(member_test, a_new_term_begins_with_a_whole_view) {
  start_scheduler();
  start_member();
  from_scheduler(change_of(2, 1, 2)); // of a view of that term, which it has never seen
  EXPECT_EQ(schedule->asked_whole.size(), 1U);
  from_scheduler(view_of(2, 1));
  EXPECT_EQ(log->views.back().experts.term, 2U);
  from_scheduler(change_of(1, 1, 2));
  EXPECT_EQ(log->views.back().experts.term, 2U);
  from_scheduler(change_of(2, 1, 2));
  EXPECT_EQ(log->views.size(), 3U);
  EXPECT_EQ(log->views.back().experts.epoch, 2U);
}

TEST_F(member_test, joins_again_after_the_schedulers_death_and_says_its_term) {
  schedule->term = 3;
  start_scheduler();
  start_member();
  caf::anon_send(directory, caf::publish_atom_v, std::string{"scheduler"}, caf::strong_actor_ptr{});
  kill(scheduler);
  advance(5s);
  EXPECT_EQ(schedule->hellos.size(), 1U);
  schedule->term = 4;
  start_scheduler();
  advance(defaults::reconnect_max);
  ASSERT_EQ(schedule->hellos.size(), 2U);
  EXPECT_EQ(schedule->hellos[1].term, 3U);
  EXPECT_EQ(log->views.back().experts.term, 4U);
}

TEST_F(member_test, a_scheduler_of_an_older_term_is_not_followed) {
  schedule->term = 3;
  start_scheduler();
  start_member();
  kill(scheduler);
  schedule->term = 2;
  start_scheduler();
  schedule->renewals.clear();
  advance(3s);
  EXPECT_TRUE(schedule->renewals.empty());
  EXPECT_EQ(log->views.back().experts.term, 3U);
}

TEST_F(member_test, a_view_that_comes_between_the_question_and_its_answer_is_not_confirmed_by_it) {
  start_scheduler();
  start_member();
  log->answers_load = false;
  schedule->renewals.clear();
  advance(defaults::lease_interval); // the question is open
  from_scheduler(view_of(1, 7));
  log->answers_load = true;
  advance(defaults::lease_interval);
  ASSERT_EQ(schedule->renewals.size(), 2U);
  EXPECT_EQ(schedule->renewals[0].epoch, 1U) << "asked before the worker had the view";
  EXPECT_EQ(schedule->renewals[1].epoch, 7U);
}

TEST_F(member_test, a_load_that_was_asked_for_before_a_rejoin_renews_nothing) {
  start_scheduler();
  start_member();
  log->answers_load = false;
  advance(defaults::lease_interval);
  schedule->renewals.clear();
  log->answers_load = true;
  from_scheduler(fence_atom_v);
  advance(1ms);
  EXPECT_EQ(schedule->hellos.size(), 2U);
  EXPECT_EQ(schedule->renewals.size(), 1U) << "that of the second membership alone";
}

TEST_F(member_test, an_expert_worker_says_the_term_of_its_orders) {
  start_scheduler();
  start_member();
  ASSERT_TRUE(ask<host_report>(member, host_order{5, 4, {}}));
  kill(scheduler);
  schedule->term = 6;
  start_scheduler();
  advance(1s);
  ASSERT_EQ(schedule->hellos.size(), 2U);
  EXPECT_EQ(schedule->hellos[1].term, 5U);
}

TEST_F(member_test, who_is_leaving_renews_until_it_is_let_go) {
  start_scheduler();
  start_member();
  schedule->answers_leaves = false;
  leave();
  ASSERT_EQ(schedule->leaves.size(), 1U);
  schedule->renewals.clear();
  advance(2s);
  EXPECT_EQ(schedule->renewals.size(), 4U) << "its lease holds while it hands over";
  from_scheduler(fence_atom_v);
  advance(10min);
  EXPECT_EQ(schedule->hellos.size(), 1U);
  EXPECT_FALSE(is_gone) << "only whoever asked it to leave has a deadline";
}

TEST_F(member_test, who_is_leaving_asks_the_next_scheduler_to_be_let_go) {
  log->is_used = true;
  start_scheduler();
  start_member();
  ASSERT_TRUE(ask<host_report>(member, host_order{1, 4, {{0, 1}}}));
  schedule->answers_leaves = false;
  leave();
  kill(scheduler);
  advance(3s);
  EXPECT_FALSE(is_gone) << "what it holds is wanted";
  start_scheduler();
  advance(defaults::reconnect_max);
  EXPECT_EQ(schedule->hellos.size(), 2U);
  EXPECT_EQ(schedule->leaves, (std::vector<worker_id>{{11}, {11}}));
  advance(2 * defaults::leave_alone);
  EXPECT_FALSE(is_gone) << "it is not alone any more";
  EXPECT_EQ(pulse->why_not_ready(), "leaves the cluster");
}

TEST_F(member_test, who_is_leaving_and_used_waits_so_long_for_a_scheduler) {
  log->is_used = true;
  start_scheduler();
  start_member();
  ASSERT_TRUE(ask<host_report>(member, host_order{1, 4, {{0, 1}}}));
  kill(scheduler);
  leave();
  advance(defaults::leave_alone - 3s);
  EXPECT_FALSE(is_gone);
  advance(3s + defaults::reconnect_max);
  EXPECT_TRUE(is_gone);
  start_scheduler();
  advance(3s);
  EXPECT_EQ(schedule->hellos.size(), 1U);
}

TEST_F(member_test, who_is_leaving_and_not_used_waits_less_long_for_a_scheduler) {
  start_scheduler();
  start_member();
  ASSERT_TRUE(ask<host_report>(member, host_order{1, 4, {{0, 1}}}));
  kill(scheduler);
  leave();
  advance(defaults::leave_idle - 3s);
  EXPECT_FALSE(is_gone);
  advance(3s + defaults::reconnect_max);
  EXPECT_TRUE(is_gone);
}

TEST_F(member_test, without_a_scheduler_an_attention_worker_leaves_when_its_sequences_have_ended) {
  start_scheduler();
  start_member(worker_role::attention);
  kill(scheduler);
  leave();
  advance(5s);
  EXPECT_FALSE(is_gone) << "it works on three";
  log->running = 0;
  advance(defaults::reconnect_max);
  EXPECT_TRUE(is_gone);
}

TEST_F(member_test, renews_as_often_after_a_rejoin_as_before) {
  start_scheduler();
  start_member();
  advance(defaults::lease_interval / 2); // the next tick of the first membership is under way
  from_scheduler(fence_atom_v);
  schedule->renewals.clear();
  advance(2s);
  EXPECT_EQ(schedule->hellos.size(), 2U);
  EXPECT_EQ(schedule->renewals.size(), 5U) << "at once, and every half second";
}

TEST_F(member_test, joins_again_when_fenced) {
  start_scheduler();
  start_member();
  from_scheduler(fence_atom_v);
  advance(1ms);
  EXPECT_EQ(schedule->hellos.size(), 2U);
  advance(1s);
  EXPECT_GT(schedule->renewals.size(), 2U);
}

TEST_F(member_test, a_fenced_worker_that_may_not_join_yet_asks_again_ever_less_often) {
  start_scheduler();
  start_member();
  schedule->refusal = make_error(ec::not_ready, "its engine has been in one step for 12.3 s");
  from_scheduler(fence_atom_v);
  schedule->renewals.clear();
  advance(3s);
  const auto asked = schedule->hellos.size() - 1;
  EXPECT_GE(asked, 7U) << "at least after 0, 50, 150, 350, 750, 1550 and 2550 ms";
  EXPECT_LE(asked, 10U) << "at most after 0, 25, 75, 175, 375, 775, 1275, 1775, 2275 and 2775 ms";
  EXPECT_TRUE(schedule->renewals.empty()) << "it is no member";
  schedule->refusal = {};
  advance(defaults::reconnect_max);
  EXPECT_GE(schedule->hellos.size(), 1U + asked + 1U);
  advance(1s);
  EXPECT_GE(schedule->renewals.size(), 2U);
}

TEST_F(member_test, a_gateway_hears_of_the_scheduler) {
  start_scheduler();
  start_member(worker_role::gateway);
  EXPECT_EQ(log->schedulers, (std::vector<bool>{true}));
  kill(scheduler);
  EXPECT_EQ(log->schedulers, (std::vector<bool>{true, false}));
  start_scheduler();
  advance(1s);
  EXPECT_EQ(log->schedulers, (std::vector<bool>{true, false, true}));
}

TEST_F(member_test, passes_orders_on_and_reports_back) {
  start_scheduler();
  start_member();
  const auto report = ask<host_report>(member, host_order{1, 4, {{0, 1}}});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->order, 4U);
  EXPECT_EQ(report->hosted, (std::vector<expert_id>{{0, 1}}));
}

TEST_F(member_test, refuses_orders_of_an_older_term_and_for_other_roles) {
  schedule->term = 3;
  start_scheduler();
  start_member();
  const auto stale = ask<host_report>(member, host_order{2, 4, {}});
  ASSERT_FALSE(stale);
  EXPECT_EQ(code_of(stale.error()), ec::stale_term);
  EXPECT_TRUE(log->orders.empty());
  start_member(worker_role::attention);
  const auto misplaced = ask<host_report>(member, host_order{3, 1, {}});
  ASSERT_FALSE(misplaced);
  EXPECT_EQ(code_of(misplaced.error()), ec::bad_request);
}

TEST_F(member_test, ends_when_the_cluster_has_another_model) {
  schedule->refusal = make_error(ec::incompatible, "'expert-11' has the model 'b', the cluster has 'a'");
  start_scheduler();
  caf::error reason;
  start_member();
  EXPECT_EQ(schedule->hellos.size(), 1U);
  root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->monitor(member);
    self->set_down_handler([&](const caf::down_msg& down) { reason = down.reason; });
    return {[](int) {}};
  }));
  advance(5s);
  EXPECT_EQ(schedule->hellos.size(), 1U) << "there is no use in trying again";
  EXPECT_TRUE(reason);
}

TEST_F(member_test, ends_with_its_worker) {
  start_scheduler();
  start_member();
  kill(worker);
  schedule->renewals.clear();
  advance(2s);
  EXPECT_TRUE(schedule->renewals.empty());
}

TEST_F(member_test, leaves_and_stays_away) {
  start_scheduler();
  start_member();
  EXPECT_TRUE(is_acknowledged(*this, member, caf::leave_atom_v));
  EXPECT_EQ(schedule->leaves, (std::vector<worker_id>{{11}}));
  schedule->renewals.clear();
  from_scheduler(fence_atom_v);
  advance(3s);
  EXPECT_EQ(schedule->hellos.size(), 1U);
  EXPECT_TRUE(schedule->renewals.empty());
}

TEST_F(member_test, leaving_without_a_scheduler_is_immediate) {
  start_member();
  EXPECT_TRUE(is_acknowledged(*this, member, caf::leave_atom_v));
  start_scheduler();
  advance(3s);
  EXPECT_TRUE(schedule->hellos.empty());
}

} // namespace
} // namespace troupe
