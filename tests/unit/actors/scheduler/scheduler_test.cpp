// Membership at the scheduler: joining, being declared dead, leaving.
#include "actors/scheduler/scheduler.hpp"

#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

using scheduler_test = scheduler_fixture;

TEST_F(scheduler_test, is_ready_when_every_expert_has_a_host_and_there_is_an_attention_worker) {
  start();
  auto& expert = join(expert_hello(11));
  EXPECT_FALSE(status().ready) << "nobody has said how many experts there are";
  expert.log->answers_orders = false;
  auto& attention = join(attention_hello(1));
  EXPECT_FALSE(attention.log->is_ready()) << "ordered is not hosted";
  caf::anon_send(expert.member, caf::tick_atom_v);
  settle();
  EXPECT_TRUE(attention.log->is_ready());
  EXPECT_TRUE(expert.log->views.empty()) << "an expert host goes by its orders";
  EXPECT_EQ(attention.log->views.back().workers.size(), 2U);
  const auto& layers = attention.log->views.back().experts.layers;
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0]->experts.size(), 4U);
  EXPECT_TRUE(layers[1]->experts.empty()) << "a dense layer";
  for (const auto& hosts : layers[2]->experts)
    EXPECT_EQ(hosts.hosts, std::vector<worker_id>{{11}});
  die(attention);
  EXPECT_FALSE(status().ready);
}

TEST_F(scheduler_test, welcomes_with_the_term_the_model_and_the_view) {
  start_ready();
  auto& late = join(attention_hello(2));
  ASSERT_TRUE(late.log->welcome);
  EXPECT_EQ(late.log->welcome->term, 1U);
  EXPECT_EQ(late.log->welcome->fingerprint, "model-a");
  EXPECT_GT(late.log->welcome->view->epoch, 0U);
  auto& host = join(expert_hello(19));
  ASSERT_TRUE(host.log->welcome);
  EXPECT_EQ(*host.log->welcome, (worker_welcome{1, "model-a", {}, true})) << "it goes by its orders";
}

TEST_F(scheduler_test, refuses_another_model_and_says_both) {
  start_ready();
  auto other = expert_hello(19);
  other.fingerprint = "model-b";
  auto& stranger = join(other);
  ASSERT_FALSE(stranger.log->welcome);
  EXPECT_EQ(system.render(stranger.log->welcome.error()),
            "troupe: incompatible: 'expert-19' has the model 'model-b', the cluster has 'model-a'");
  EXPECT_EQ(status().workers.size(), 3U);
  EXPECT_EQ(metrics->count("worker-refused"), 1U);
}

TEST_F(scheduler_test, refuses_a_role_that_it_does_not_know) {
  start_ready();
  auto newer = expert_hello(19);
  newer.address.role = static_cast<worker_role>(3);
  newer.of_role = {};
  auto& stranger = join(newer);
  ASSERT_FALSE(stranger.log->welcome);
  EXPECT_EQ(
      system.render(stranger.log->welcome.error()),
      "troupe: incompatible: 'expert-19' has the role unknown_3 and says of it what this scheduler does not "
      "understand: workers with newer roles need a newer scheduler");
  auto confused = attention_hello(20);
  confused.of_role = expert_terms{};
  EXPECT_EQ(code_of(join(confused).log->welcome.error()), ec::incompatible);
  EXPECT_EQ(status().workers.size(), 3U);
}

// A gateway has no weights whose fingerprint could be compared.
TEST_F(scheduler_test, refuses_a_gateway_with_another_config_json_whoever_came_first) {
  const auto gateway_of = [](std::uint64_t id, std::string config) {
    auto hello = gateway_hello(id);
    hello.config_id = std::move(config);
    return hello;
  };
  start();
  auto& early = join(gateway_of(70, "other"));
  auto& good = join(gateway_of(71, "this"));
  EXPECT_TRUE(early.log->welcome) << "there is no model yet";
  auto worker = attention_hello(1);
  worker.config_id = "this";
  EXPECT_TRUE(join(worker).log->welcome);
  EXPECT_EQ(early.log->fences, 1U);
  EXPECT_EQ(good.log->fences, 0U);
  join_again(early);
  EXPECT_EQ(code_of(early.log->welcome.error()), ec::incompatible);
  EXPECT_EQ(
      system.render(early.log->welcome.error()),
      "troupe: incompatible: 'gateway-70' has a config.json of another model (other; the cluster's is this): "
      "give it "
      "the model folder of the workers, which may be without weights");
  EXPECT_EQ(code_of(join(gateway_of(72, "other")).log->welcome.error()), ec::incompatible);
  EXPECT_TRUE(join(gateway_of(73, "")).log->welcome) << "of an earlier version";
}

TEST_F(scheduler_test, refuses_another_numerics_class_unless_told_otherwise) {
  start_ready();
  auto other = expert_hello(19);
  other.numerics_class = "cuda/float32";
  auto& stranger = join(other);
  ASSERT_FALSE(stranger.log->welcome);
  EXPECT_EQ(system.render(stranger.log->welcome.error()),
            "troupe: incompatible: 'expert-19' has the numerics class 'cuda/float32', the expert workers of "
            "the cluster have 'cpu/float32'");
  peers.clear();
  start_ready(2, {.allow_inexact = true});
  EXPECT_TRUE(join(other).log->welcome);
}

TEST_F(scheduler_test, each_role_has_its_numerics_class) {
  start();
  join(attention_hello(1));
  auto expert = expert_hello(11);
  expert.numerics_class = "cuda/float32";
  EXPECT_TRUE(join(expert).log->welcome) << "the first of its role says which class that is";
  EXPECT_TRUE(peers.front().log->is_ready());
  EXPECT_EQ(code_of(join(expert_hello(12)).log->welcome.error()), ec::incompatible)
      << "an expert's replicas give the same bits";
  auto other = attention_hello(2);
  other.numerics_class = "cuda/float32";
  EXPECT_EQ(code_of(join(other).log->welcome.error()), ec::incompatible)
      << "a request that fails over goes on with the same tokens";
  EXPECT_TRUE(join(attention_hello(3)).log->welcome);
}

TEST_F(scheduler_test, all_workers_have_one_arithmetic_revision) {
  start();
  auto attention = attention_hello(1);
  attention.numerics_class = "cpu-x86/bf16/none/r1";
  EXPECT_TRUE(join(attention).log->welcome);
  auto expert = expert_hello(11);
  expert.numerics_class = "cpu-x86/bf16/int8/r2";
  auto& stranger = join(expert);
  ASSERT_FALSE(stranger.log->welcome);
  EXPECT_EQ(
      system.render(stranger.log->welcome.error()),
      "troupe: incompatible: 'expert-11' has the arithmetic revision 'r2', the attention workers of the "
      "cluster have 'r1': run the new version as a second cluster");
  expert.numerics_class = "cuda/bf16/int8/r1";
  EXPECT_TRUE(join(expert).log->welcome);
}

TEST_F(scheduler_test, a_role_without_workers_may_come_back_in_another_numerics_class) {
  start_ready(1);
  die(peers[1]);
  auto expert = expert_hello(12);
  expert.numerics_class = "cuda/float32";
  EXPECT_TRUE(join(expert).log->welcome);
  EXPECT_FALSE(join(expert_hello(13)).log->welcome);
}

TEST_F(scheduler_test, a_lease_runs_out_in_virtual_time) {
  start_ready();
  auto& silent = peers[1];
  silent.renews = false;
  pass(1900ms);
  EXPECT_EQ(status().workers.size(), 3U);
  EXPECT_EQ(silent.log->fences, 0U);
  pass(300ms);
  EXPECT_EQ(status().workers.size(), 2U);
  EXPECT_EQ(silent.log->fences, 1U) << "told to join again, should it still be there";
  renew(silent);
  EXPECT_EQ(silent.log->fences, 2U) << "a renewal of a worker that is not here";
  EXPECT_TRUE(peers[0].log->is_ready()) << "its experts have moved";
  join_again(silent);
  EXPECT_TRUE(silent.log->welcome);
  EXPECT_EQ(status().workers.size(), 3U);
}

TEST_F(scheduler_test, a_scheduler_that_was_held_up_counts_that_against_nobody) {
  start_ready();
  peers[1].renews = false;
  pass(1000ms);
  coordinator.advance_time(5s); // nothing runs meanwhile
  run();
  EXPECT_EQ(status().workers.size(), 3U) << "their renewals may wait to be read";
  pass(
      800ms); // what was late is counted from the tick that was due then: a tick less than the pause, at most
  EXPECT_EQ(status().workers.size(), 3U);
  pass(400ms);
  EXPECT_EQ(status().workers.size(), 2U) << "the second of its lease that was left to the silent one is over";
  EXPECT_EQ(peers[0].log->fences, 0U);
}

TEST_F(scheduler_test, a_scheduler_that_was_held_up_waits_for_those_who_took_it_for_dead) {
  start_ready();
  const auto epoch = peers[0].log->epoch();
  for (std::size_t i = 1; i < peers.size(); ++i)
    peers[i].renews = false;
  coordinator.advance_time(3s); // nothing runs meanwhile, and the connections of two end
  for (std::size_t i = 1; i < peers.size(); ++i)
    die(peers[i]);
  run();
  pass(defaults::reconnect_max);
  EXPECT_EQ(peers[0].log->epoch(), epoch) << "no view without workers that are only on their way back";
  for (std::size_t i = 1; i < peers.size(); ++i) {
    peers[i].member = root(system.spawn(fake_member, peers[i].log));
    join_again(peers[i]);
    peers[i].renews = true;
  }
  EXPECT_TRUE(peers[0].log->is_ready());
  EXPECT_EQ(status().workers.size(), peers.size());
  EXPECT_GT(peers[0].log->epoch(), epoch);
  // An absent worker is waited for no longer than after a restart.
  coordinator.advance_time(3s);
  die(peers[1]);
  run();
  pass(defaults::scheduler_recovery + 1s);
  EXPECT_TRUE(peers[0].log->is_ready()) << "its experts have moved";
  EXPECT_EQ(status().workers.size(), peers.size() - 1);
  // Nor the next time: it continues as soon as the others are back.
  const auto later = peers[0].log->epoch();
  coordinator.advance_time(3s);
  die(peers[2]);
  run();
  peers[2].member = root(system.spawn(fake_member, peers[2].log));
  join_again(peers[2]);
  EXPECT_GT(peers[0].log->epoch(), later);
}

TEST_F(scheduler_test, joining_twice_is_joining_once) {
  start_ready();
  const auto epoch = peers[0].log->epoch();
  join_again(peers[1]);
  EXPECT_TRUE(peers[1].log->welcome);
  EXPECT_EQ(status().workers.size(), 3U);
  EXPECT_GE(peers[0].log->epoch(), epoch);
  EXPECT_TRUE(peers[0].log->is_ready());
  EXPECT_EQ(status().term, 1U) << "a worker of this term is no reason for a new one";
}

TEST_F(scheduler_test, a_worker_started_anew_replaces_its_earlier_self) {
  start_ready();
  auto again = expert_hello(29);
  again.address.name = "expert-11";
  join(again);
  const auto now_here = status().workers;
  EXPECT_EQ(now_here.size(), 3U);
  EXPECT_TRUE(std::none_of(now_here.begin(), now_here.end(),
                           [](const auto& worker) { return worker.address.id.value == 11; }));
  EXPECT_TRUE(peers[0].log->is_ready());
}

TEST_F(scheduler_test, the_name_of_a_live_worker_elsewhere_is_taken) {
  start_ready();
  auto other = expert_hello(29);
  other.address.name = "expert-11";
  other.address.endpoint = "10.0.0.2:7000";
  auto& second = join(other);
  ASSERT_FALSE(second.log->welcome);
  EXPECT_EQ(code_of(second.log->welcome.error()), ec::not_ready) << "it may try again";
}

TEST_F(scheduler_test, who_shuts_down_is_not_reported_as_dead) {
  start_ready();
  const auto last_gone = [this] {
    std::string text;
    for (const auto& [name, told] : metrics->events)
      if (name == "worker-gone")
        text = told;
    return text;
  };
  caf::anon_send_exit(peers[1].member, caf::exit_reason::user_shutdown);
  settle();
  EXPECT_EQ(last_gone(), "expert-11 has left");
  die(peers[2]);
  EXPECT_EQ(last_gone(), "expert-12 has died");
}

TEST_F(scheduler_test, a_leaving_attention_worker_finishes_what_it_has) {
  start_ready();
  join(attention_hello(2));
  admit(request_of(1));
  bool left = false;
  root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->request(caf::actor_cast<caf::actor>(scheduler), 60s, caf::leave_atom_v, worker_id{1}).then([&] {
      left = true;
    });
    return {[](int) {}};
  }));
  run();
  EXPECT_FALSE(left);
  EXPECT_EQ(admit(request_of(2)).worker(), 2U);
  EXPECT_EQ(admit(request_of(3)).worker(), 2U);
  done(1);
  EXPECT_TRUE(left);
  EXPECT_EQ(status().workers.size(), 3U);
}

TEST_F(scheduler_test, who_leaves_stays_as_long_as_something_depends_on_it_and_it_renews) {
  start_ready();
  admit(request_of(1));
  bool left = false;
  root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->request(caf::actor_cast<caf::actor>(scheduler), 60s, caf::leave_atom_v, worker_id{1}).then([&] {
      left = true;
    });
    return {[](int) {}};
  }));
  pass(50s);
  EXPECT_FALSE(left);
  done(1);
  EXPECT_TRUE(left);
  EXPECT_TRUE(is_acknowledged(*this, scheduler, caf::leave_atom_v, worker_id{99})) << "nobody to wait for";
}

TEST_F(scheduler_test, exit_while_busy_answers_everyone) {
  start_ready();
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_of(id));
  auto& queued = admit(request_of(5));
  caf::anon_send_exit(scheduler, caf::exit_reason::user_shutdown);
  run();
  EXPECT_EQ(queued.code(), ec::shutting_down);
}

} // namespace
} // namespace troupe
