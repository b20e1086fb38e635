// How the scheduler places and moves experts, and what survives its own death.
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "actors/scheduler/scheduler.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class placement_test : public scheduler_fixture {
 protected:
  /// A directory of this test alone.
  std::string state_dir() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    auto path = ::testing::TempDir() + "troupe-" + info->test_suite_name() + "-" + info->name();
    std::filesystem::create_directories(path);
    return path;
  }

  void SetUp() override {
    scheduler_fixture::SetUp();
    std::filesystem::remove_all(state_dir());
  }

  void TearDown() override {
    scheduler_fixture::TearDown();
    std::filesystem::remove_all(state_dir());
  }

  static std::uint64_t max_experts(const peer& who) {
    const auto& host = std::get<expert_terms>(who.hello.of_role);
    return host.memory_bytes / host.expert_bytes;
  }

  std::map<std::uint64_t, std::size_t> loads() {
    std::map<std::uint64_t, std::size_t> result;
    for (const auto& layer : status().experts.layers)
      for (const auto& expert : layer->experts)
        for (auto host : expert.hosts)
          ++result[host.value];
    return result;
  }
};

TEST_F(placement_test, every_expert_has_its_replicas_on_distinct_workers) {
  start_ready(3, {.num_replicas = 2});
  for (const auto& layer : status().experts.layers)
    for (const auto& expert : layer->experts) {
      ASSERT_EQ(expert.hosts.size(), 2U);
      EXPECT_NE(expert.hosts[0], expert.hosts[1]);
    }
  for (const auto& [worker, load] : loads())
    EXPECT_NEAR(static_cast<double>(load), 16.0 / 3, 1.0) << worker;
}

TEST_F(placement_test, respects_memory) {
  start();
  join(attention_hello(1));
  join(expert_hello(11, 2));
  join(expert_hello(12, 6));
  EXPECT_TRUE(status().ready);
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{11, 2}, {12, 6}}));
  for (const auto& who : peers)
    for (const auto& order : who.log->orders)
      EXPECT_LE(order.experts.size(), max_experts(who));
}

TEST_F(placement_test, is_not_ready_when_memory_is_short) {
  start();
  join(attention_hello(1));
  join(expert_hello(11, 7));
  EXPECT_FALSE(status().ready);
  join(expert_hello(12, 1));
  EXPECT_TRUE(status().ready);
}

// Two workers with room for 7 of 8 experts each; the survivor takes what it can hold, and gets no more
// orders.
TEST_F(placement_test, the_survivor_of_two_is_ordered_what_it_said_that_it_can_hold) {
  start({.max_queue_wait = 60s});
  join(attention_hello(1));
  auto& lost = join(expert_hello(11, 7));
  auto& survivor = join(expert_hello(12, 7));
  pass(1s);
  ASSERT_TRUE(status().ready);
  expert_activity activity{{{4, 4, 4, 4}, {}, {4, 4, 4, 4}}};
  expert_id idlest; // of those that are lost
  for (std::uint32_t index = 0; index < 4; ++index)
    if (status().experts.layers[2]->experts[index].hosts == std::vector<worker_id>{{11}})
      idlest = {2, index};
  activity.rows[idlest.layer][idlest.index] = 1;
  caf::anon_send(fleet_of(scheduler), std::make_shared<const expert_activity>(activity));
  const auto size_of_orders = [&] {
    std::size_t most = 0;
    for (const auto& who : peers)
      for (const auto& order : who.log->orders)
        most = std::max(most, order.experts.size());
    return most;
  };
  metrics->events.clear();
  die(lost);
  pass(1s);
  EXPECT_FALSE(status().ready);
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{12, 7}}));
  EXPECT_TRUE(status().experts.layers[idlest.layer]->experts[idlest.index].hosts.empty());
  EXPECT_EQ(metrics->without_room, 1U);
  EXPECT_EQ(metrics->count("experts-without-room"), 1U);
  const auto orders = survivor.log->orders.size();
  auto request = request_of(1);
  request.deadline_ms = 100'000;
  const auto& waits = admit(request);
  pass(50s);
  EXPECT_FALSE(waits.is_here);
  pass(20s);
  EXPECT_EQ(waits.code(), ec::not_ready) << "503, and not the worker's life";
  EXPECT_EQ(survivor.log->orders.size(), orders) << "nothing is ordered again and again";
  EXPECT_EQ(metrics->count("experts-without-room"), 1U) << "told once";
  EXPECT_EQ(metrics->count("placement-unbalanced"), 0U);
  join(expert_hello(13, 7));
  pass(1s);
  EXPECT_TRUE(status().ready);
  EXPECT_EQ(metrics->without_room, 0U);
  EXPECT_EQ(metrics->count("experts-have-room"), 1U);
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{12, 4}, {13, 4}}));
  EXPECT_LE(size_of_orders(), 7U);
}

// Joins, deaths and drains of workers with little memory: an order always fits together with earlier orders
// that are not known to be dropped.
TEST_F(placement_test, no_order_is_larger_than_its_worker) {
  start({.num_replicas = 2});
  join(attention_hello(1));
  const std::vector<std::uint64_t> room{3, 5, 2, 7, 3, 1};
  for (std::uint64_t id = 0; id < room.size(); ++id) {
    join(expert_hello(11 + id, room[id]));
    if (id % 2 == 1)
      pass(100ms);
  }
  const auto drain = [this](std::set<std::string> names) {
    caf::anon_send(fleet_of(scheduler), std::make_shared<const std::set<std::string>>(std::move(names)));
    pass(1s);
  };
  drain({"expert-14"});
  die(peers[2]);
  drain({"expert-14", "expert-11"});
  die(peers[5]);
  join(expert_hello(20, 2));
  drain({});
  die(peers[4]);
  pass(5s);
  for (const auto& who : peers)
    for (const auto& order : who.log->orders)
      EXPECT_LE(order.experts.size(), max_experts(who)) << who.hello.address.name;
}

TEST_F(placement_test, waits_for_the_first_workers_before_it_places) {
  start({.min_expert_workers = 2});
  join(attention_hello(1));
  auto& first = join(expert_hello(11));
  EXPECT_TRUE(first.log->orders.empty());
  join(expert_hello(12));
  EXPECT_TRUE(status().ready);
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{11, 4}, {12, 4}}));
}

TEST_F(placement_test, versions_grow_only_where_something_changes) {
  start_ready(2);
  const auto before = status().experts;
  join(expert_hello(13));
  const auto after = status().experts;
  EXPECT_GT(after.epoch, before.epoch) << "a worker has come";
  for (std::size_t layer = 0; layer < 3; ++layer)
    if (after.layers[layer]->experts == before.layers[layer]->experts)
      EXPECT_EQ(after.layers[layer]->version, before.layers[layer]->version);
    else
      EXPECT_GT(after.layers[layer]->version, before.layers[layer]->version);
  EXPECT_EQ(after.layers[1]->version, before.layers[1]->version) << "a dense layer never changes";
}

TEST_F(placement_test, experts_of_a_dead_worker_are_hosted_again_at_once) {
  start_ready(3);
  die(peers[2]);
  EXPECT_TRUE(peers[0].log->is_ready());
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{11, 4}, {13, 4}}));
}

TEST_F(placement_test, replicas_serve_while_a_dead_workers_experts_move) {
  start_ready(3, {.num_replicas = 2});
  for (auto& who : peers)
    who.log->answers_orders = false;
  die(peers[2]);
  const auto view = peers[0].log->views.back();
  EXPECT_TRUE(view.ready) << "every expert still has a host";
  for (const auto& layer : view.experts.layers)
    for (const auto& expert : layer->experts)
      for (auto host : expert.hosts)
        EXPECT_NE(host.value, 12U);
}

TEST_F(placement_test, a_move_is_hitless) {
  start_ready(1);
  auto& attention = peers[0];
  auto& old_host = peers[1];
  const auto orders_before = old_host.log->orders.size();
  attention.confirms = false;
  auto& joined = join(expert_hello(12));
  ASSERT_FALSE(joined.log->orders.empty());
  EXPECT_EQ(joined.log->orders.back().experts.size(), 4U) << "its fair share";
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{11, 4}, {12, 4}}))
      << "loaded, so it is routed to";
  EXPECT_TRUE(attention.log->is_ready());
  EXPECT_EQ(old_host.log->orders.size(), orders_before) << "not before the attention worker has confirmed";
  pass(5s);
  EXPECT_EQ(old_host.log->orders.size(), orders_before);
  EXPECT_EQ(old_host.log->hosted.size(), 8U);
  attention.confirms = true;
  pass(1s);
  EXPECT_EQ(old_host.log->hosted.size(), 4U) << "now it lets go";
  for (const auto& layer : status().experts.layers)
    for (std::size_t index = 0; index < layer->experts.size(); ++index)
      EXPECT_EQ(layer->experts[index].hosts.size(), 1U);
}

TEST_F(placement_test, the_old_host_serves_until_the_new_one_has_loaded) {
  start_ready(1);
  peers[0].confirms = true;
  auto late = std::make_shared<fake_member_log>();
  late->answers_orders = false;
  auto& joined = peers.emplace_back();
  joined.hello = expert_hello(12);
  joined.load.id = {12};
  joined.log = late;
  joined.member = root(system.spawn(fake_member, late));
  join_again(joined);
  pass(3s);
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{11, 8}}));
  EXPECT_TRUE(peers[0].log->is_ready());
  ASSERT_EQ(late->orders.size(), 1U) << "one order at a time";
  late->answers_orders = true;
  caf::anon_send(joined.member, caf::tick_atom_v);
  pass(2s);
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{11, 4}, {12, 4}}));
  EXPECT_EQ(peers[1].log->hosted.size(), 4U);
}

TEST_F(placement_test, a_failed_order_is_made_again) {
  start();
  join(attention_hello(1));
  auto log = std::make_shared<fake_member_log>();
  log->order_error = "cannot read model-00001.safetensors";
  auto& broken = peers.emplace_back();
  broken.hello = expert_hello(11);
  broken.load.id = {11};
  broken.log = log;
  broken.member = root(system.spawn(fake_member, log));
  join_again(broken);
  pass(1s);
  EXPECT_FALSE(status().ready);
  EXPECT_GT(log->orders.size(), 1U);
  EXPECT_LT(log->orders.size(), 12U) << "with pauses";
  EXPECT_EQ(metrics->events.back().second, "expert-11: cannot read model-00001.safetensors");
  log->order_error.clear();
  pass(2s);
  EXPECT_TRUE(status().ready);
}

TEST_F(placement_test, who_keeps_failing_is_asked_ever_less_often) {
  start();
  join(attention_hello(1));
  auto& broken = peers.emplace_back();
  broken.log->order_error = "cannot read model-00001.safetensors";
  broken.hello = expert_hello(11);
  broken.load.id = {11};
  broken.member = root(system.spawn(fake_member, broken.log));
  join_again(broken);
  pass(30s);
  const auto before = broken.log->orders.size();
  pass(6 * defaults::host_order_retry_max);
  EXPECT_GE(broken.log->orders.size(), before + 4);
  EXPECT_LE(broken.log->orders.size(), before + 7);
  broken.log->order_error.clear();
  pass(defaults::host_order_retry_max + defaults::lease_interval);
  EXPECT_TRUE(status().ready);
}

TEST_F(placement_test, large_placements_are_loaded_in_bounded_orders) {
  start();
  join(attention_hello(1, {100, 100}));
  auto& host = join(expert_hello(11));
  EXPECT_TRUE(status().ready);
  std::size_t before = 0;
  for (const auto& order : host.log->orders) {
    EXPECT_LE(order.experts.size(), before + defaults::max_experts_per_order);
    before = order.experts.size();
  }
  EXPECT_EQ(before, 200U);
}

TEST_F(placement_test, a_leaving_expert_worker_hands_over_first) {
  start_ready(2);
  bool left = false;
  root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->request(caf::actor_cast<caf::actor>(scheduler), 60s, caf::leave_atom_v, worker_id{11}).then([&] {
      left = true;
    });
    return {[](int) {}};
  }));
  settle();
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{12, 8}}));
  EXPECT_FALSE(left) << "the attention worker has not confirmed";
  pass(1s);
  EXPECT_TRUE(left);
  EXPECT_TRUE(peers[0].log->is_ready());
}

TEST_F(placement_test, the_last_expert_workers_leave_at_once_when_nothing_runs) {
  start_ready(2);
  admit(request_of(1));
  std::size_t num_left = 0;
  for (std::uint64_t id : {11U, 12U})
    root(system.spawn([&, id](caf::event_based_actor* self) -> caf::behavior {
      self->request(caf::actor_cast<caf::actor>(scheduler), 60s, caf::leave_atom_v, worker_id{id}).then([&] {
        ++num_left;
      });
      return {[](int) {}};
    }));
  pass(1s);
  EXPECT_EQ(num_left, 0U) << "a request runs";
  done(1);
  EXPECT_EQ(num_left, 2U);
}

TEST_F(placement_test, a_restarted_scheduler_takes_a_higher_term_and_what_is_there) {
  start_ready(2, {.state_dir = state_dir()});
  const auto before = status().experts;
  EXPECT_EQ(before.term, 1U);
  auto& attention = peers[0];
  const auto orders = peers[1].log->orders.size();
  kill(scheduler);
  start({.state_dir = state_dir()});
  terms_of<attention_terms>(attention.hello).running = {{{70}, 0}, {{70}, 1}, {{71}, 0}};
  attention.load.running = 3;
  join_again(attention);
  EXPECT_EQ(attention.log->term(), 1U) << "nothing is published while workers are still missing";
  join_again(peers[1]);
  join_again(peers[2]);
  const auto after = status();
  EXPECT_EQ(after.term, 2U);
  EXPECT_TRUE(after.ready);
  EXPECT_EQ(attention.log->term(), 2U);
  for (std::size_t layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(after.experts.layers[layer]->experts, before.layers[layer]->experts) << "nothing moves";
    EXPECT_GT(after.experts.layers[layer]->version, before.layers[layer]->version)
        << "versions grow over terms";
  }
  EXPECT_EQ(peers[1].log->orders.size(), orders) << "nothing is loaded again";
  EXPECT_EQ(after.assigned, 2U) << "running requests count";
  EXPECT_EQ(admit(request_of(1)).worker(), 1U);
  auto& waits = admit(request_of(2));
  EXPECT_FALSE(waits.is_here);
  done(70);
  EXPECT_EQ(waits.worker(), 1U);
}

TEST_F(placement_test, a_restarted_scheduler_does_not_wait_for_ever) {
  start_ready(2, {.state_dir = state_dir()});
  kill(scheduler);
  die(peers[2]);
  start({.state_dir = state_dir()});
  join_again(peers[0]);
  join_again(peers[1]);
  EXPECT_FALSE(status().ready);
  pass(defaults::scheduler_recovery + 200ms);
  EXPECT_TRUE(status().ready) << "the missing worker is taken for dead, its experts are hosted elsewhere";
  EXPECT_EQ(loads(), (std::map<std::uint64_t, std::size_t>{{11, 8}}));
}

TEST_F(placement_test, a_scheduler_without_memory_takes_a_higher_term_than_its_workers_have_seen) {
  start_ready(2);
  kill(scheduler);
  start();
  for (auto& who : peers)
    join_again(who);
  pass(defaults::scheduler_recovery + 200ms);
  EXPECT_EQ(status().term, 2U);
  EXPECT_TRUE(status().ready);
  for (auto& who : peers)
    EXPECT_EQ(who.log->newest_term(), 2U);
}

TEST_F(placement_test, requests_that_ended_while_the_scheduler_was_away_do_not_come_back) {
  start_ready(2, {.state_dir = state_dir()});
  kill(scheduler);
  start({.state_dir = state_dir()});
  done(70);
  terms_of<attention_terms>(peers[0].hello).running = {{{70}, 0}};
  for (auto& who : peers)
    join_again(who);
  EXPECT_EQ(status().assigned, 0U);
}

TEST_F(placement_test, what_a_worker_no_longer_runs_gives_its_place_back) {
  start();
  auto hello = attention_hello(1);
  terms_of<attention_terms>(hello).running = {{{70}, 0}, {{71}, 0}};
  join(hello);
  EXPECT_EQ(status().assigned, 2U);
  peers[0].load.running = 1;
  renew(peers[0]);
  EXPECT_EQ(status().assigned, 1U);
}

TEST_F(placement_test, what_a_worker_runs_for_others_does_not_keep_the_place_of_what_it_no_longer_runs) {
  start();
  auto hello = attention_hello(1);
  terms_of<attention_terms>(hello).running = {{{70}, 0}, {{71}, 0}};
  join(hello);
  join(expert_hello(11));
  EXPECT_EQ(admit(request_of(1)).worker(), 1U);
  EXPECT_EQ(status().assigned, 3U);
  peers[0].load.running = 1; // the gateway of the other two has died
  renew(peers[0]);
  EXPECT_EQ(status().assigned, 1U);
}

TEST_F(placement_test, a_damaged_file_is_told_and_costs_a_term) {
  start_ready(2, {.state_dir = state_dir()});
  kill(scheduler);
  std::ofstream{state_dir() + "/placement", std::ios::app} << "x";
  start({.state_dir = state_dir()});
  EXPECT_EQ(metrics->count("state-damaged"), 1U);
  EXPECT_EQ(status().term, 2U);
  for (auto& who : peers)
    join_again(who);
  pass(defaults::scheduler_recovery + 200ms);
  EXPECT_TRUE(status().ready);
}

} // namespace
} // namespace troupe
