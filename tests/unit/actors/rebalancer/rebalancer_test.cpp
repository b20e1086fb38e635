// The rebalancer with a real scheduler and a real history, among stand-ins for workers.
#include "actors/rebalancer/rebalancer.hpp"

#include <algorithm>
#include <filesystem>
#include <iterator>

#include "actors/history/history.hpp"
#include "actors/rebalancer/rebalancer_metrics.hpp"
#include "actors/rebalancer/standing_orders.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

struct recording_rebalancer : rebalancer_metrics {
  void on_look(double imbalance, double) override { imbalances.push_back(imbalance); }

  void on_wanted_workers(std::uint32_t count) override { wanted.push_back(count); }

  void on_plan(bool is_carried_out, double) override { ++(is_carried_out ? carried_out : dropped); }

  void on_moves_left(std::uint64_t count) override { left = count; }

  void on_move(bool is_done, std::uint64_t) override { ++(is_done ? done : given_up); }

  void on_event(const char* what, const std::string& text) override { events.emplace_back(what, text); }

  std::vector<double> imbalances;
  std::vector<std::uint32_t> wanted;
  std::size_t carried_out = 0;
  std::size_t dropped = 0;
  std::uint64_t left = 0;
  std::size_t done = 0;
  std::size_t given_up = 0;
  std::vector<std::pair<std::string, std::string>> events;
};

class rebalancer_test : public scheduler_fixture {
 protected:
  void SetUp() override {
    scheduler_fixture::SetUp();
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory = ::testing::TempDir() + "troupe-rebalancer-" + info->name();
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
  }

  void TearDown() override {
    scheduler_fixture::TearDown();
    std::filesystem::remove_all(directory);
  }

  /// A cluster of one attention worker and N hosts, and its rebalancer.
  void start_fleet(std::size_t num_hosts, bool is_automatic = true, std::uint64_t max_experts = 0) {
    start();
    join(attention_hello(1));
    for (std::size_t index = 0; index < num_hosts; ++index)
      join(expert_hello(11 + index, max_experts));
    history = root(spawn_history(system, {}));
    config.is_automatic = is_automatic;
    config.metrics = told;
    config.state_dir = directory;
    start_rebalancer();
    pass(1s);
  }

  void start_rebalancer() {
    rebalancer = root(spawn_rebalancer(system, fleet_of(scheduler), history, config));
  }

  void restart_rebalancer() {
    kill(rebalancer);
    start_rebalancer();
  }

  placement_command command(placement_action action) const {
    placement_command result;
    result.action = action;
    return result;
  }

  placement_command about(placement_action action, expert_id expert,
                          std::vector<std::string> hosts = {}) const {
    auto result = command(action);
    result.experts = {{expert, std::move(hosts)}};
    return result;
  }

  placement_command of_worker(placement_action action, std::string worker) const {
    auto result = command(action);
    result.worker = std::move(worker);
    return result;
  }

  /// The answer, which is immediate since nothing takes time here.
  caf::expected<placement_change> say(const placement_command& asked) {
    return ask<placement_change>(rebalancer, asked);
  }

  ec refusal_of(const placement_command& asked) {
    const auto said = say(asked);
    return said ? ec::none : code_of(said.error());
  }

  rebalancer_status state() { return *ask<rebalancer_status>(rebalancer, status_atom_v); }

  /// Names of the hosts that get rows of the expert.
  std::vector<std::string> hosts_of(expert_id expert) {
    const auto known = status();
    std::vector<std::string> result;
    for (auto id : known.experts.layers.at(expert.layer)->experts.at(expert.index).hosts)
      for (const auto& worker : known.workers)
        if (worker.address.id == id)
          result.push_back(worker.address.name);
    return result;
  }

  std::string other_than(const std::string& name) const {
    return name == "expert-11" ? "expert-12" : "expert-11";
  }

  /// The attention worker counts the given rows of each expert of either layer.
  void count(std::vector<std::uint64_t> rows) {
    activation_window window;
    window.duration_ms = 5000;
    window.counts.micro_batches = 10;
    window.counts.rows = {rows, {}, rows};
    ASSERT_TRUE(ask<activation_receipt>(
        history, activation_report{{1}, "model-a", {4, 0, 4}, ++sequence, {encode(window)}}));
  }

  std::size_t num_on(const std::string& name) {
    std::size_t result = 0;
    for (std::uint32_t layer : {0U, 2U})
      for (std::uint32_t index = 0; index < 4; ++index) {
        const auto hosts = hosts_of({layer, index});
        result += static_cast<std::size_t>(std::count(hosts.begin(), hosts.end(), name));
      }
    return result;
  }

  /// The expert workers compute for this share of their time.
  void compute(duration time, double share) {
    const auto end = now() + time;
    while (now() < end) {
      for (auto& who : peers)
        if (who.renews && who.hello.address.role == worker_role::expert)
          std::get<expert_load>(who.load.of_role).work.busy_ns += static_cast<std::uint64_t>(share * 1e9);
      pass(1s);
    }
  }

  std::string directory;
  history_actor history;
  rebalancer_config config;
  std::shared_ptr<recording_rebalancer> told = std::make_shared<recording_rebalancer>();
  rebalancer_actor rebalancer;
  std::uint64_t sequence = 0;
};

TEST_F(rebalancer_test, moves_an_expert_as_it_is_told) {
  start_fleet(2, false);
  const auto from = hosts_of({0, 0}).front();
  auto asked = about(placement_action::move, {0, 0}, {other_than(from)});
  asked.worker = from;
  asked.dry_run = true;
  auto said = say(asked);
  ASSERT_TRUE(said) << text_of(said.error());
  EXPECT_EQ(said->id, 0U);
  EXPECT_EQ(said->experts, (std::vector<expert_change>{{{0, 0}, {from}, {other_than(from)}}}));
  EXPECT_EQ(said->moves, 1U);
  EXPECT_EQ(said->bytes, 100U);
  pass(2s);
  EXPECT_EQ(hosts_of({0, 0}).front(), from) << "a dry run does nothing";
  asked.dry_run = false;
  said = say(asked);
  ASSERT_TRUE(said) << text_of(said.error());
  EXPECT_EQ(said->id, 1U);
  EXPECT_EQ(state().changes.at(0).left, 1U);
  EXPECT_EQ(state().changes.at(0).change.experts, said->experts) << "it is in flight";
  pass(2s);
  EXPECT_EQ(hosts_of({0, 0}), (std::vector<std::string>{other_than(from)}));
  const auto over = state().changes;
  ASSERT_EQ(over.size(), 1U);
  EXPECT_EQ(over[0].done, 1U);
  EXPECT_EQ(over[0].left + over[0].given_up, 0U);
  EXPECT_TRUE(over[0].change.experts.empty()) << "nothing is in flight";
  EXPECT_EQ(told->done, 1U);
  EXPECT_EQ(told->left, 0U);
  EXPECT_EQ(refusal_of(asked), ec::bad_request) << "it is not there any more";
}

TEST_F(rebalancer_test, pins_replicas_and_drained_workers_survive_it) {
  start_fleet(3, false);
  ASSERT_TRUE(say(about(placement_action::pin, {0, 1}, {"expert-13", "expert-11"})));
  pass(2s);
  EXPECT_EQ(hosts_of({0, 1}), (std::vector<std::string>{"expert-11", "expert-13"}));
  auto two = about(placement_action::replicate, {2, 3});
  two.replicas = 2;
  ASSERT_TRUE(say(two));
  pass(2s);
  EXPECT_EQ(hosts_of({2, 3}).size(), 2U);
  ASSERT_TRUE(say(of_worker(placement_action::drain, "expert-12")));
  pass(3s);
  EXPECT_EQ(num_on("expert-12"), 0U);
  restart_rebalancer();
  pass(1s);
  const auto known = state();
  EXPECT_EQ(known.mode, planner_mode::off);
  EXPECT_EQ(known.pins, (std::vector<named_hosts>{{{0, 1}, {"expert-11", "expert-13"}}}));
  EXPECT_EQ(known.replicas, (std::vector<named_hosts>{{{2, 3}, {"2"}}}));
  EXPECT_EQ(known.drained, (std::vector<std::string>{"expert-12"}));
  EXPECT_EQ(hosts_of({2, 3}).size(), 2U) << "also without the drained host";
  ASSERT_TRUE(say(of_worker(placement_action::undrain, "expert-12")));
  ASSERT_TRUE(say(about(placement_action::unpin, {0, 1})));
  EXPECT_TRUE(state().pins.empty());
  EXPECT_TRUE(state().drained.empty());
}

TEST_F(rebalancer_test, a_damaged_file_of_orders_is_told_of) {
  start_fleet(2, false);
  ASSERT_TRUE(say(of_worker(placement_action::pause, "")));
  std::filesystem::resize_file(standing_orders_store{directory}.path(), 10);
  restart_rebalancer();
  run();
  ASSERT_FALSE(told->events.empty());
  EXPECT_EQ(told->events.back().first, "orders-damaged");
}

TEST_F(rebalancer_test, moves_one_expert_at_a_time_to_each_host) {
  start_fleet(2, false);
  auto all = command(placement_action::assign);
  for (std::uint32_t layer : {0U, 2U})
    for (std::uint32_t index = 0; index < 4; ++index)
      all.experts.push_back({{layer, index}, {other_than(hosts_of({layer, index}).front())}});
  const auto before = peers[1].log->orders.size();
  ASSERT_TRUE(say(all));
  pass(20s);
  EXPECT_EQ(state().changes.at(0).done, 8U) << testing::PrintToString(told->events);
  const auto& orders = peers[1].log->orders;
  ASSERT_GE(orders.size() - before, 8U) << "one order to load, or one to let go, for each";
  for (auto at = before; at < orders.size(); ++at) {
    std::vector<expert_id> added;
    std::set_difference(orders[at].experts.begin(), orders[at].experts.end(), orders[at - 1].experts.begin(),
                        orders[at - 1].experts.end(), std::back_inserter(added));
    EXPECT_LE(added.size(), 1U);
  }
  for (const auto& wanted : all.experts)
    EXPECT_EQ(hosts_of(wanted.expert), wanted.hosts);
}

TEST_F(rebalancer_test, another_change_has_to_wait_and_a_pause_stops_what_has_not_begun) {
  start_fleet(2, false);
  peers[0].confirms = false; // so that no move ends
  auto all = command(placement_action::assign);
  for (std::uint32_t index = 0; index < 4; ++index)
    all.experts.push_back({{0, index}, {other_than(hosts_of({0, index}).front())}});
  ASSERT_TRUE(say(all));
  EXPECT_EQ(state().changes.at(0).left, 4U);
  EXPECT_EQ(state().changes.at(0).change.experts.size(), 1U) << "both hosts are busy with the first move";
  EXPECT_EQ(refusal_of(command(placement_action::rebalance)), ec::not_ready);
  auto dry = command(placement_action::rebalance);
  dry.dry_run = true;
  EXPECT_EQ(refusal_of(dry), ec::none);
  ASSERT_TRUE(say(of_worker(placement_action::pause, "")));
  peers[0].confirms = true;
  pass(3s);
  const auto over = state().changes.at(0);
  EXPECT_EQ(over.left, 0U);
  EXPECT_EQ(over.done, 1U);
  EXPECT_EQ(over.given_up, 3U);
  EXPECT_EQ(refusal_of(command(placement_action::rebalance)), ec::none);
}

TEST_F(rebalancer_test, nonsense_and_impatience_are_refused) {
  start();
  history = root(spawn_history(system, {}));
  start_rebalancer();
  run();
  EXPECT_EQ(refusal_of(about(placement_action::pin, {0, 0}, {"expert-11"})), ec::bad_request);
  EXPECT_EQ(refusal_of(command(placement_action::rebalance)), ec::not_ready) << "there is no placement yet";
}

TEST_F(rebalancer_test, commands_that_are_under_way_are_answered_when_it_ends) {
  start_fleet(2, false);
  kill(rebalancer);
  // A history that does not answer delays the first command, and the second waits for it.
  history = root(system.spawn([]() -> history_actor::behavior_type {
    return {[](const activation_report&) { return activation_receipt{}; },
            [](history_atom, std::uint32_t) {
              return caf::result<history_snapshot>{caf::delegated<history_snapshot>{}};
            },
            [](caf::tick_atom) {}};
  }));
  start_rebalancer();
  std::vector<ec> codes;
  for (int i = 0; i < 2; ++i)
    root(system.spawn([this, &codes](caf::event_based_actor* self) {
      self->request(rebalancer, std::chrono::minutes{5}, command(placement_action::rebalance))
          .then([&codes](const placement_change&) { codes.push_back(ec::none); },
                [&codes](const caf::error& error) { codes.push_back(code_of(error)); });
    }));
  run();
  EXPECT_TRUE(codes.empty());
  caf::anon_send_exit(rebalancer, caf::exit_reason::user_shutdown);
  run();
  EXPECT_EQ(codes, (std::vector<ec>{ec::shutting_down, ec::shutting_down}));
}

TEST_F(rebalancer_test, an_imbalance_that_lasts_is_mended) {
  start_fleet(2);
  // Both hosts have two experts of each layer; the busy ones are brought together first.
  auto together = command(placement_action::assign);
  for (std::uint32_t layer : {0U, 2U})
    for (std::uint32_t index = 0; index < 4; ++index)
      together.experts.push_back({{layer, index}, {index < 2 ? "expert-11" : "expert-12"}});
  ASSERT_TRUE(say(together));
  pass(20s);
  for (int i = 0; i < 4; ++i) {
    count({10'000, 10'000, 0, 0});
    pass(5s);
  }
  pass(5s);
  ASSERT_FALSE(told->imbalances.empty());
  EXPECT_GT(told->imbalances.front(), 1.9);
  EXPECT_EQ(told->carried_out, 1U);
  EXPECT_EQ(state().changes.at(0).change.reason, "imbalance");
  for (std::uint32_t layer : {0U, 2U})
    EXPECT_NE(hosts_of({layer, 0}), hosts_of({layer, 1}));
  count({10'000, 10'000, 0, 0});
  pass(6s);
  EXPECT_LT(told->imbalances.back(), 1.1);
  const auto num_changes = told->carried_out;
  for (int i = 0; i < 6; ++i) {
    count({10'000, 10'000, 0, 0});
    pass(5s);
  }
  EXPECT_EQ(told->carried_out, num_changes) << "nothing is left to gain";
}

TEST_F(rebalancer_test, a_paused_one_changes_nothing_by_itself) {
  start_fleet(2);
  ASSERT_TRUE(say(of_worker(placement_action::pause, "")));
  auto together = command(placement_action::assign);
  for (std::uint32_t layer : {0U, 2U})
    for (std::uint32_t index = 0; index < 4; ++index)
      together.experts.push_back({{layer, index}, {index < 2 ? "expert-11" : "expert-12"}});
  ASSERT_TRUE(say(together));
  for (int i = 0; i < 10; ++i) {
    count({10'000, 10'000, 0, 0});
    pass(5s);
  }
  EXPECT_EQ(told->carried_out + told->dropped, 0U);
  EXPECT_EQ(state().mode, planner_mode::paused);
  ASSERT_TRUE(say(of_worker(placement_action::resume, "")));
  for (int i = 0; i < 4; ++i) {
    count({10'000, 10'000, 0, 0});
    pass(5s);
  }
  EXPECT_EQ(told->carried_out, 1U);
}

TEST_F(rebalancer_test, a_worker_that_joins_gets_load_within_seconds) {
  start_fleet(2);
  for (int i = 0; i < 4; ++i) {
    count({5000, 5000, 5000, 5000});
    pass(5s);
  }
  // As after planned moves: nothing is free to be balanced by the scheduler.
  auto as_is = command(placement_action::assign);
  for (std::uint32_t layer : {0U, 2U})
    for (std::uint32_t index = 0; index < 4; ++index)
      as_is.experts.push_back({{layer, index}, {index % 2 == 0 ? "expert-11" : "expert-12"}});
  ASSERT_TRUE(say(as_is));
  pass(10s);
  join(expert_hello(13));
  pass(6s);
  EXPECT_GT(num_on("expert-13"), 0U);
}

TEST_F(rebalancer_test, says_how_many_workers_there_should_be_whatever_number_there_is) {
  start_fleet(2);
  compute(5min, 0.8);
  EXPECT_EQ(state().wanted_workers, 0U) << "five minutes of looks";
  compute(1min, 0.8);
  EXPECT_EQ(state().wanted_workers, 3U) << "1.6 workers' time, of which each is to compute 0.6";
  join(expert_hello(13)); // as in a rollout: one more, then the oldest leaves
  compute(10min, 1.6 / 3);
  EXPECT_EQ(state().wanted_workers, 3U);
  die(peers[1]);
  compute(10min, 0.8);
  EXPECT_EQ(state().wanted_workers, 3U);
  EXPECT_EQ(told->wanted, std::vector<std::uint32_t>(told->wanted.size(), 3U));
}

TEST_F(rebalancer_test, counts_workers_whose_memory_holds_all_copies) {
  start_fleet(3, true, 3); // eight experts
  compute(6min, 0.01);
  EXPECT_EQ(state().wanted_workers, 3U);
}

} // namespace
} // namespace troupe
