#include "actors/cluster/member.hpp"

#include "actors/defaults.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/deterministic_system.hpp"

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

struct scheduler_log {
  uint64_t term = 1;
  caf::error refusal;
  bool answers_joins = true;
  bool answers_leaves = true;
  std::vector<worker_hello> hellos;
  std::vector<lease_renewal> renewals;
  std::vector<worker_id> leaves;
  member_actor member; ///< the last that joined
};

struct fake_scheduler_state {
  static inline const char* name = "fake_scheduler";
  std::vector<caf::typed_response_promise<worker_welcome>> open;
  std::vector<caf::typed_response_promise<caf::unit_t>> leaving;
};

cluster_view view_of(uint64_t term, uint64_t epoch) {
  cluster_view view;
  view.experts.term = term;
  view.experts.epoch = epoch;
  return view;
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
      [](const admission_request&) -> caf::result<assignment> { return make_error(ec::not_ready, "fake"); },
      [](done_atom, request_id) {},
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
  EXPECT_EQ(schedule->hellos.size(), 1U + 7U) << "after 0, 50, 150, 350, 750, 1550 and 2550 ms";
  EXPECT_TRUE(schedule->renewals.empty()) << "it is no member";
  schedule->refusal = {};
  advance(defaults::reconnect_max);
  EXPECT_EQ(schedule->hellos.size(), 1U + 8U);
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
