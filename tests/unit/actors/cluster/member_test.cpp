#include "actors/cluster/member.hpp"

#include <map>
#include <set>
#include <string>

#include "actors/cluster/member_pulse.hpp"
#include "actors/defaults.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"
#include "tests/unit/actors/placement_edits.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Understands what any worker is told.
using any_worker_actor =
    caf::typed_actor<caf::reacts_to<cluster_view>, caf::replies_to<caf::join_atom>::with<worker_hello>,
                     caf::replies_to<load_atom>::with<lease_renewal>,
                     caf::replies_to<host_order>::with<host_report>,
                     caf::reacts_to<scheduler_atom, caf::strong_actor_ptr>>;

struct worker_log {
  std::vector<cluster_view> views;
  std::vector<host_order> orders;
  std::vector<bool> schedulers; ///< found, lost, ...
  bool answers_load = true;
};

struct silent_state {
  static inline const char* name = "any_worker";
  std::vector<caf::typed_response_promise<lease_renewal>> open;
};

any_worker_actor::behavior_type any_worker(any_worker_actor::stateful_pointer<silent_state> self,
                                           worker_hello hello, std::shared_ptr<worker_log> log) {
  return {
      [log](const cluster_view& view) { log->views.push_back(view); },
      [hello](caf::join_atom) { return hello; },
      [self, log](load_atom) -> caf::result<lease_renewal> {
        lease_renewal load;
        load.running = 3;
        if (log->answers_load) {
          for (auto& late : std::exchange(self->state.open, {}))
            late.deliver(load);
          return load;
        }
        return self->state.open.emplace_back(self->make_response_promise<lease_renewal>());
      },
      [log](const host_order& order) {
        log->orders.push_back(order);
        return host_report{order.term, order.order, order.experts, {}};
      },
      [log](scheduler_atom, const caf::strong_actor_ptr& scheduler) {
        log->schedulers.push_back(scheduler != nullptr);
      },
  };
}

/// Finds a scheduler by its endpoint, as the transport does.
struct switchboard {
  std::map<std::string, scheduler_actor> schedulers; ///< that listen, and are active
  std::set<std::string> hanging;                     ///< accept connections and say nothing
  std::vector<std::string> asked;
};

struct switchboard_state {
  static inline const char* name = "switchboard";
  std::vector<caf::typed_response_promise<caf::strong_actor_ptr>> open;
};

directory_actor::behavior_type
switchboard_directory(directory_actor::stateful_pointer<switchboard_state> self,
                      std::shared_ptr<switchboard> lines) {
  return {[self, lines](caf::resolve_atom, const std::string& endpoint,
                        const std::string&) -> caf::result<caf::strong_actor_ptr> {
    lines->asked.push_back(endpoint);
    if (lines->hanging.contains(endpoint))
      return self->state.open.emplace_back(self->make_response_promise<caf::strong_actor_ptr>());
    if (auto found = lines->schedulers.find(endpoint); found != lines->schedulers.end())
      return caf::actor_cast<caf::strong_actor_ptr>(found->second);
    return make_error(ec::peer_down, endpoint + " has published no scheduler");
  }};
}

struct scheduler_log {
  uint64_t term = 1;
  caf::error refusal;
  bool answers_joins = true;
  bool answers_leaves = true;
  std::vector<worker_hello> hellos;
  std::vector<lease_renewal> renewals;
  std::vector<worker_id> leaves;
  shared_view_change whole; ///< the answer to whoever has missed a change; none where it has epoch 0
  std::vector<worker_id> asked_whole;
  member_actor member; ///< the last that joined
};

struct fake_scheduler_state {
  static inline const char* name = "fake_scheduler";
  std::vector<caf::typed_response_promise<worker_welcome>> open;
  std::vector<caf::typed_response_promise<caf::unit_t>> leaving;
  std::vector<caf::typed_response_promise<shared_view_change>> open_views;
};

/// What leads from one epoch to another; from 0 the whole view, of no layers.
shared_view_change change_of(uint64_t term, uint64_t from_epoch, uint64_t epoch) {
  view_change change;
  change.term = term;
  change.from_epoch = from_epoch;
  change.epoch = epoch;
  return shared_view_change{change};
}

shared_view_change view_of(uint64_t term, uint64_t epoch) {
  return change_of(term, 0, epoch);
}

scheduler_actor::behavior_type fake_scheduler(scheduler_actor::stateful_pointer<fake_scheduler_state> self,
                                              std::shared_ptr<scheduler_log> log) {
  return {
      [self, log](caf::join_atom, const worker_hello& hello) -> caf::result<worker_welcome> {
        log->hellos.push_back(hello);
        log->member = caf::actor_cast<member_actor>(self->current_sender());
        if (!log->answers_joins)
          return self->state.open.emplace_back(self->make_response_promise<worker_welcome>());
        if (log->refusal)
          return log->refusal;
        return worker_welcome{log->term, "model-a", view_of(log->term, 1)};
      },
      [log](const lease_renewal& load) { log->renewals.push_back(load); },
      [self, log](caf::leave_atom, worker_id id) -> caf::result<void> {
        log->leaves.push_back(id);
        if (log->answers_leaves)
          return caf::unit;
        return self->state.leaving.emplace_back(self->make_response_promise<caf::unit_t>());
      },
      [self, log](view_atom, worker_id id) -> caf::result<shared_view_change> {
        log->asked_whole.push_back(id);
        if (log->whole->epoch == 0)
          return self->state.open_views.emplace_back(self->make_response_promise<shared_view_change>());
        return log->whole;
      },
      [](const admission_request&) -> caf::result<assignment> { return make_error(ec::not_ready, "fake"); },
      [](done_atom, request_id) {},
      [](done_atom, request_id, uint32_t) {},
      [](caf::tick_atom) {},
      [](gather_atom) {},
      [](status_atom) { return scheduler_status{}; },
  };
}

class member_test : public deterministic_system {
 protected:
  void SetUp() override {
    deterministic_system::SetUp();
    directory = root(system.spawn(local_directory));
  }

  void TearDown() override {
    schedule->member = nullptr;
    deterministic_system::TearDown();
  }

  void start_member(worker_role role = worker_role::expert) {
    auto hello = expert_hello(11);
    hello.address.role = role;
    worker = root(system.spawn(any_worker, hello, log));
    member_config config;
    config.role = role;
    config.directory = directory;
    config.worker = caf::actor_cast<caf::strong_actor_ptr>(worker);
    config.pulse = pulse;
    member = root(spawn_member(system, config));
    advance(1ms); // its first look is a timer
  }

  void start_scheduler() {
    scheduler = root(system.spawn(fake_scheduler, schedule));
    caf::anon_send(directory, caf::publish_atom_v, std::string{"scheduler"},
                   caf::actor_cast<caf::strong_actor_ptr>(scheduler));
    run();
  }

  template <class... Parts>
  void from_scheduler(Parts... parts) {
    caf::anon_send(member, std::move(parts)...);
    run();
  }

  local_directory_actor directory;
  any_worker_actor worker;
  member_actor member;
  scheduler_actor scheduler;
  std::shared_ptr<worker_log> log = std::make_shared<worker_log>();
  std::shared_ptr<scheduler_log> schedule = std::make_shared<scheduler_log>();
  std::shared_ptr<member_pulse> pulse = std::make_shared<member_pulse>();

  std::string flaw() { return pulse->flaw(coordinator.clock().now()); }
};

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

TEST_F(member_test, tells_the_probes_that_it_has_joined_and_that_its_worker_is_silent) {
  start_member();
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

TEST_F(member_test, tells_the_probes_that_the_scheduler_is_gone_and_that_it_leaves) {
  start_scheduler();
  start_member();
  EXPECT_EQ(pulse->why_not_ready(), "");
  caf::anon_send_exit(scheduler, caf::exit_reason::kill);
  run();
  EXPECT_EQ(pulse->why_not_ready(), "looks for a scheduler");
  caf::anon_send(member, caf::leave_atom_v);
  run();
  EXPECT_EQ(pulse->why_not_ready(), "leaves the cluster");
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

TEST_F(member_test, who_is_leaving_renews_and_joins_nobody_any_more) {
  start_scheduler();
  start_member();
  schedule->answers_leaves = false;
  bool is_gone = false;
  system.spawn([&](caf::event_based_actor* self) {
    self->request(member, 60s, caf::leave_atom_v).then([&] { is_gone = true; });
  });
  run();
  ASSERT_EQ(schedule->leaves.size(), 1U);
  schedule->renewals.clear();
  advance(2s);
  EXPECT_EQ(schedule->renewals.size(), 4U) << "its lease holds while it hands over";
  from_scheduler(fence_atom_v);
  advance(1s);
  EXPECT_EQ(schedule->hellos.size(), 1U);
  EXPECT_FALSE(is_gone);
  kill(scheduler);
  start_scheduler();
  advance(1s);
  EXPECT_EQ(schedule->hellos.size(), 1U) << "the next scheduler has never had it";
  advance(defaults::drain + defaults::local_request);
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

// ---------------------------------------------------------------------------------------------------------------
// Several schedulers

class member_of_several_test : public member_test {
 protected:
  /// A member that knows schedulers at "a" and "b".
  void start_between_two() {
    switchboard_actor = root(system.spawn(switchboard_directory, lines));
    worker = root(system.spawn(any_worker, expert_hello(11), log));
    member_config config;
    config.role = worker_role::expert;
    config.scheduler_endpoints = {"a", "b"};
    config.directory = switchboard_actor;
    config.worker = caf::actor_cast<caf::strong_actor_ptr>(worker);
    config.seed = 11;
    member = root(spawn_member(system, config));
    advance(1ms);
  }

  void TearDown() override {
    lines->schedulers.clear();
    other->member = nullptr;
    member_test::TearDown();
  }

  scheduler_actor listen_at(const std::string& endpoint, const std::shared_ptr<scheduler_log>& said) {
    auto added = root(system.spawn(fake_scheduler, said));
    lines->schedulers[endpoint] = added;
    return added;
  }

  void die_at(const std::string& endpoint) {
    const auto dead = lines->schedulers.at(endpoint);
    lines->schedulers.erase(endpoint);
    kill(dead);
  }

  std::vector<std::string> take_asked() { return std::exchange(lines->asked, {}); }

  std::shared_ptr<switchboard> lines = std::make_shared<switchboard>();
  directory_actor switchboard_actor;
  std::shared_ptr<scheduler_log> other = std::make_shared<scheduler_log>(); ///< of the one at "b"
};

TEST_F(member_of_several_test, finds_the_active_one_without_a_pause) {
  listen_at("b", other);
  start_between_two();
  EXPECT_EQ(take_asked(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(other->hellos.size(), 1U);
}

TEST_F(member_of_several_test, joins_the_standby_that_has_taken_over_and_says_its_term) {
  schedule->term = 3;
  other->term = 4;
  listen_at("a", schedule);
  start_between_two();
  ASSERT_EQ(schedule->hellos.size(), 1U);
  take_asked();
  die_at("a");
  advance(defaults::reconnect_min);
  EXPECT_EQ(take_asked(), (std::vector<std::string>{"b", "a"})) << "the standby first, and each once a pause";
  listen_at("b", other);
  advance(2 * defaults::reconnect_min);
  ASSERT_EQ(other->hellos.size(), 1U);
  EXPECT_EQ(other->hellos[0].term, 3U);
  EXPECT_EQ(log->views.back().experts.term, 4U);
  advance(1s);
  EXPECT_GE(other->renewals.size(), 2U);
}

TEST_F(member_of_several_test, one_that_stands_still_does_not_keep_it_from_its_standby) {
  schedule->term = 3;
  other->term = 4;
  listen_at("a", schedule);
  start_between_two();
  lines->hanging = {"a"};
  die_at("a"); // the transport has heard nothing for too long
  advance(defaults::reconnect_min);
  EXPECT_TRUE(other->hellos.empty());
  listen_at("b", other);
  advance(defaults::scheduler_probe + 2 * defaults::reconnect_min);
  EXPECT_EQ(other->hellos.size(), 1U);
}

TEST_F(member_of_several_test, follows_the_newer_term_and_not_one_that_wakes_up) {
  schedule->term = 3;
  other->term = 4;
  listen_at("b", other);
  start_between_two();
  ASSERT_EQ(other->hellos.size(), 1U);
  listen_at("a", schedule); // an older one is there again
  die_at("b");
  advance(1s);
  EXPECT_FALSE(schedule->hellos.empty()) << "it has asked";
  EXPECT_TRUE(schedule->renewals.empty()) << "and not followed";
  EXPECT_EQ(log->views.back().experts.term, 4U);
  other->term = 5;
  listen_at("b", other);
  advance(defaults::reconnect_max);
  EXPECT_EQ(log->views.back().experts.term, 5U);
}

TEST_F(member_of_several_test, asks_the_same_one_again_when_fenced) {
  listen_at("b", other);
  start_between_two();
  take_asked();
  from_scheduler(fence_atom_v);
  advance(1ms);
  EXPECT_EQ(take_asked(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(other->hellos.size(), 2U);
}

TEST_F(member_of_several_test, pauses_once_a_round_while_nobody_is_there) {
  start_between_two();
  advance(3s);
  const auto asked = take_asked();
  EXPECT_EQ(asked.size() % 2, 0U);
  EXPECT_LE(asked.size(), 2U * 10U);
  EXPECT_GE(asked.size(), 2U * 7U);
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
