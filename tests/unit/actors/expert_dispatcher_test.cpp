// What an attention worker does when its experts die, move, hesitate or lie: the tokens stay the same.
#include "actors/expert_dispatcher.hpp"

#include "actors/defaults.hpp"
#include "tests/unit/actors/serving_system.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// An expert host that does with a batch whatever the test wants.
expert_host_actor::behavior_type
puppet(expert_host_actor::pointer self,
       std::function<caf::result<expert_result>(expert_host_actor::pointer, const expert_batch&)> answer) {
  return {[self, answer = std::move(answer)](const expert_batch& batch) { return answer(self, batch); },
          [](const host_order& order) {
            return host_report{order.term, order.order, {}, {}};
          },
          [](caf::join_atom) { return worker_hello{}; },
          [](load_atom) { return lease_renewal{}; },
          [](const cluster_view&) {},
          [](const expert_step_ptr&) {},
          [](const expert_load_ptr&) {},
          [](linger_atom) {},
          [](status_atom) { return expert_host_status{}; }};
}

class expert_dispatcher_test : public serving_system {
 public:
  void submit_expecting(const generation_request& request) {
    wanted[request.id] = expected(request);
    submit(attention, client, request);
  }

  /// Requests of different lengths that are under way when this returns.
  void start_requests(uint64_t count = 6, uint64_t first = 1) {
    for (uint64_t number = first; number < first + count; ++number)
      submit_expecting(make_request(number, static_cast<uint32_t>(3 + number * 5 % 17), 24));
    ASSERT_TRUE(run_until([&] { return tokens_of(first) >= 3; }));
  }

  /// What came of request `number`.
  outcome& of(uint64_t number) { return results[sequence_id{{number}, 0}]; }

  size_t tokens_of(uint64_t number) { return of(number).output.tokens.size(); }

  void finish_all() {
    ASSERT_TRUE(run_until([&] { return all_finished(results, wanted.size()); }, 200s));
    for (const auto& [id, output] : wanted) {
      EXPECT_EQ(results[id].failure, ec::none) << results[id].failure_text;
      EXPECT_EQ(results[id].output, output) << "request " << id.request.value;
    }
    EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
  }

  /// Two hosts with everything, and a worker.
  void start_replicated() {
    one = add_host("expert-0");
    two = add_host("expert-1");
    load(one, all_experts());
    load(two, all_experts());
    start_worker();
    publish(attention, one, two);
  }

  /// `one`, which takes batches and never answers.
  void add_mute_host() {
    one.address = {{77}, worker_role::expert, "mute", ""};
    one.actor = root(system.spawn(puppet, [this](expert_host_actor::pointer self, const expert_batch&) {
      ++mute_batches;
      return caf::result<expert_result>{self->make_response_promise<expert_result>()};
    }));
    members.push_back(one.address);
    caf::anon_send(directory, caf::publish_atom_v, one.address.name,
                   caf::actor_cast<caf::strong_actor_ptr>(one.actor));
  }

  void start_worker(attention_worker_config config = {}) {
    attention = add_worker("attention-0", config);
    client = add_client(results);
  }

  host one;
  host two;
  size_t mute_batches = 0;
  worker attention;
  outcomes results;
  std::map<sequence_id, modelled_output> wanted;
  token_receiver_actor client;
};

TEST_F(expert_dispatcher_test, placements_and_replicas_do_not_change_tokens) {
  one = add_host("expert-0");
  two = add_host("expert-1");
  const auto third = add_host("expert-2");
  load(one, all_experts([](expert_id id) { return id.index % 3 != 0; }));
  load(two, all_experts([](expert_id id) { return id.index % 3 != 1; }));
  load(third, all_experts([](expert_id id) { return id.index % 3 == 0 && id.layer == 2; }));
  attention_worker_config config;
  config.max_micro_batches = 2;
  start_worker(config);
  publish(attention, one, two, third);
  start_requests(30);
  finish_all();
  EXPECT_EQ(status_of(attention).expert_retries, 0U);
  for (const auto& at : {one, two, third})
    EXPECT_GT(at.metrics->steps, 0U) << at.address.name;
}

TEST_F(expert_dispatcher_test, workers_share_the_steps_of_a_host) {
  one = add_host("expert-0");
  load(one, all_experts());
  std::vector<worker> workers;
  for (const auto* name : {"attention-0", "attention-1", "attention-2", "attention-3"})
    workers.push_back(add_worker(name));
  attention = workers[0];
  client = add_client(results);
  publish(one, workers[0], workers[1], workers[2], workers[3]);
  for (uint64_t number = 1; number <= 40; ++number) {
    const auto request = make_request(number, 5, 10);
    wanted[request.id] = expected(request);
    submit(workers[number % 4], client, request);
  }
  finish_all();
  EXPECT_GE(one.metrics->most_merged, 2U);
}

TEST_F(expert_dispatcher_test, a_host_dies_and_its_replica_takes_over) {
  start_replicated();
  start_requests();
  one.device->slow_down(100);
  advance(5ms); // by now it sits on a batch
  const auto before = now();
  kill(one.actor);
  ASSERT_TRUE(run_until([&] { return tokens_of(1) >= 6; }));
  EXPECT_LT(now() - before, 10ms) << "batches in flight are re-sent at once, not at a timeout";
  finish_all();
  EXPECT_GT(status_of(attention).expert_retries, 0U);
}

TEST_F(expert_dispatcher_test, a_host_dies_alone_and_a_new_view_brings_another) {
  one = add_host("expert-0");
  load(one, all_experts());
  start_worker();
  publish(attention, one);
  start_requests();
  kill(one.actor);
  advance(5s);
  EXPECT_FALSE(all_finished(results, wanted.size()));
  remove(one.address);
  publish(attention);
  two = add_host("expert-1");
  load(two, all_experts());
  publish(attention, two);
  finish_all();
}

TEST_F(expert_dispatcher_test, a_view_without_a_host_means_that_it_is_dead) {
  start_replicated();
  one.device->slow_down(1e6); // it would answer in minutes
  submit_expecting(make_request(1, 5, 10));
  run();
  advance(1ms);
  remove(one.address);
  publish(attention, two);
  const auto before = now();
  finish_all();
  EXPECT_LT(now() - before, 100ms);
}

TEST_F(expert_dispatcher_test, nobody_hosts_an_expert_and_the_requests_are_given_back) {
  one = add_host("expert-0");
  load(one, all_experts([](expert_id id) { return id.layer != 3; }));
  start_worker();
  publish(attention, one);
  const auto request = make_request(1, 5, 5);
  submit(attention, client, request);
  advance(defaults::unhosted_wait - 1s);
  EXPECT_FALSE(results[request.id].finished);
  advance(2s);
  EXPECT_EQ(results[request.id].failure, ec::not_ready);
  EXPECT_NE(results[request.id].failure_text.find("of layer 3 for 60 s"), std::string::npos)
      << results[request.id].failure_text;
  EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
  advance(1s);
  EXPECT_FALSE(coordinator.has_pending_timeout()) << "an idle worker does not tick";
}

TEST_F(expert_dispatcher_test, a_parked_micro_batch_does_not_hold_up_others) {
  one = add_host("expert-0");
  load(one, all_experts());
  attention_worker_config config;
  config.min_micro_batches = 2;
  config.max_micro_batches = 2;
  start_worker(config);
  publish(attention, one);
  // Which requests need expert 7 of layer 3, and which do not?
  std::map<bool, generation_request> examples;
  for (uint64_t number = 1; examples.size() < 2; ++number) {
    const auto request = make_request(number, 2, 2);
    submit_expecting(request);
    finish_all();
    const auto load = ask<lease_renewal>(attention.actor, load_atom_v);
    ASSERT_TRUE(load);
    examples[load->activations[3][7] > 0] = request;
  }
  results.clear();
  wanted.clear();
  std::erase(experts.layers[3].experts[7].hosts, one.address.id);
  publish(attention);
  const auto parked = examples.at(true);
  submit(attention, client, parked);
  advance(1s);
  submit_expecting(examples.at(false));
  ASSERT_TRUE(run_until([&] { return of(examples.at(false).id.request.value).finished; }, 1s));
  EXPECT_FALSE(results[parked.id].finished);
  place(one, {{3, 7}});
  publish(attention);
  wanted[parked.id] = expected(parked);
  finish_all();
}

TEST_F(expert_dispatcher_test, several_micro_batches_fly_at_once_when_it_pays) {
  costs.attention_step = 1ms; // more than what streaming the experts twice costs
  one = add_host("expert-0");
  load(one, all_experts());
  attention_worker_config config;
  config.max_micro_batches = 3;
  start_worker(config);
  publish(attention, one);
  start_requests(12);
  ASSERT_TRUE(run_until([&] { return attention.metrics->widest >= 2; }));
  finish_all();
}

TEST_F(expert_dispatcher_test, cancelled_requests_do_not_wait_for_an_expert) {
  one = add_host("expert-0");
  load(one, all_experts([](expert_id id) { return id.layer != 3; }));
  start_worker();
  publish(attention, one);
  const auto request = make_request(1, 5, 5);
  submit(attention, client, request);
  advance(1s);
  EXPECT_GT(status_of(attention).kv_blocks_used, 0U);
  caf::anon_send(attention.actor, cancel_atom_v, request.id, request.attempt);
  run();
  EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
  EXPECT_EQ(status_of(attention).running, 0U);
  advance(70s);
  EXPECT_FALSE(results[request.id].finished) << "nobody wants to know";
}

TEST_F(expert_dispatcher_test, an_expert_has_moved_and_a_newer_view_says_where) {
  one = add_host("expert-0");
  two = add_host("expert-1");
  const auto moved = [](expert_id id) { return id.layer == 2 && id.index == 1; };
  load(one, all_experts([&](expert_id id) { return !moved(id); }));
  load(two, all_experts(moved));
  // The worker is told the old placement, in which `one` still has it.
  auto truth = experts;
  std::erase(experts.layers[2].experts[1].hosts, two.address.id);
  place(one, all_experts(moved));
  start_worker();
  publish(attention, one, two);
  for (uint64_t number = 1; number <= 6; ++number)
    submit_expecting(make_request(number, 12, 6));
  advance(300ms);
  EXPECT_FALSE(all_finished(results, wanted.size()));
  EXPECT_GT(attention.metrics->retries[ec::not_hosted], 0U);
  EXPECT_LT(attention.metrics->retries[ec::not_hosted], 5U) << "it waits instead of asking again and again";
  truth.term = experts.term;
  truth.epoch = experts.epoch;
  experts = truth;
  for (auto& layer : experts.layers)
    layer.version = 7;
  const auto before = now();
  publish(attention, one, two);
  finish_all();
  EXPECT_LT(now() - before, 50ms);
}

TEST_F(expert_dispatcher_test, a_contradicted_replica_is_avoided_at_once) {
  start_replicated();
  start_requests();
  ASSERT_TRUE(ask<host_report>(one.actor, host_order{1, 99, {}}));
  const auto before = now();
  finish_all();
  EXPECT_LT(now() - before, 1s);
  EXPECT_GT(attention.metrics->retries[ec::not_hosted], 0U);
}

TEST_F(expert_dispatcher_test, a_slow_host_is_hedged_and_its_late_answers_dropped) {
  start_replicated();
  start_requests();
  one.device->slow_down(20'000); // a minute a step and more
  const auto before = now();
  ASSERT_TRUE(run_until([&] { return tokens_of(1) >= 6; }));
  EXPECT_LT(now() - before, 3s);
  EXPECT_GT(attention.metrics->hedges, 0U);
  finish_all();
  advance(10min); // everything that was late arrives
  EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
}

TEST_F(expert_dispatcher_test, a_slow_host_alone_is_waited_for) {
  one = add_host("expert-0");
  load(one, all_experts());
  start_worker();
  publish(attention, one);
  start_requests(2);
  one.device->slow_down(2'000);
  finish_all();
  EXPECT_EQ(attention.metrics->hedges, 0U);
}

TEST_F(expert_dispatcher_test, a_host_that_needs_longer_than_the_timeout_gets_on) {
  one = add_host("expert-0");
  load(one, all_experts());
  start_worker();
  publish(attention, one);
  one.device->slow_down(90'000);
  const auto before = now();
  submit_expecting(make_request(1, 5, 3));
  ASSERT_TRUE(run_until([&] { return all_finished(results, 1); }, 2000s));
  EXPECT_GT(now() - before, 9 * defaults::expert_batch_timeout) << "three layers, three times";
  EXPECT_GT(status_of(attention).expert_retries, 0U) << "it could have been mute";
  EXPECT_LE(status_of(attention).expert_retries, 9U) << "what has been measured is waited for";
  finish_all();
}

TEST_F(expert_dispatcher_test, a_mute_host_times_out_and_another_answers) {
  two = add_host("expert-1");
  load(two, all_experts());
  add_mute_host();
  // Only the mute one has layer 0 at first, so that nothing can be hedged.
  for (auto& expert : experts.layers[0].experts)
    expert.hosts = {one.address.id};
  start_worker();
  publish(attention, two);
  submit_expecting(make_request(1, 5, 3));
  advance(9s);
  EXPECT_EQ(tokens_of(1), 0U);
  place(two, all_experts());
  publish(attention, two);
  finish_all();
  EXPECT_EQ(attention.metrics->hedges + attention.metrics->retries[ec::none] > 0, true);
}

TEST_F(expert_dispatcher_test, a_mute_host_without_a_replica_is_asked_again) {
  add_mute_host();
  load(one, all_experts());
  start_worker();
  publish(attention);
  submit(attention, client, make_request(1, 5, 3));
  advance(defaults::expert_batch_timeout - 1s);
  EXPECT_EQ(mute_batches, 1U);
  advance(2s);
  EXPECT_EQ(mute_batches, 2U);
  EXPECT_EQ(attention.metrics->retries[ec::none], 1U);
}

TEST_F(expert_dispatcher_test, batches_that_nobody_waits_for_are_given_up_too) {
  add_mute_host();
  load(one, all_experts());
  start_worker();
  publish(attention);
  const auto request = make_request(1, 5, 3);
  submit(attention, client, request);
  advance(1s);
  caf::anon_send(attention.actor, cancel_atom_v, request.id, request.attempt);
  advance(defaults::expert_batch_timeout - 3s);
  EXPECT_TRUE(coordinator.has_pending_timeout()) << "the batch is still out, and somebody counts";
  advance(4s);
  EXPECT_EQ(mute_batches, 1U);
  EXPECT_FALSE(coordinator.has_pending_timeout()) << "an idle worker does not tick";
}

TEST_F(expert_dispatcher_test, overload_is_a_reason_to_go_elsewhere) {
  expert_host_config config;
  config.max_queued_rows = 1; // one batch runs and one waits
  one = add_host("expert-0", config);
  two = add_host("expert-1");
  load(one, all_experts());
  load(two, all_experts());
  start_worker();
  std::vector<worker> others;
  for (const auto* name : {"attention-1", "attention-2", "attention-3"})
    others.push_back(add_worker(name));
  publish(attention, one, two, others[0], others[1], others[2]);
  for (uint64_t number = 1; number <= 40; ++number) {
    const auto request = make_request(number, 12, 8);
    wanted[request.id] = expected(request);
    submit(number % 4 == 0 ? attention : others[number % 4 - 1], client, request);
  }
  const auto before = now();
  finish_all();
  EXPECT_LT(now() - before, 1s);
  EXPECT_GT(one.metrics->refusals[ec::overloaded], 0U);
}

TEST_F(expert_dispatcher_test, overload_of_the_only_host_is_waited_out) {
  // Large prefills of two workers do not fit the queue at once.
  expert_host_config config;
  config.max_queued_rows = 130;
  one = add_host("expert-0", config);
  load(one, all_experts());
  start_worker();
  auto other = add_worker("attention-1");
  auto third = add_worker("attention-2");
  publish(attention, other, third, one);
  for (uint64_t number = 1; number <= 9; ++number) {
    const auto request = make_request(number, 60, 4);
    wanted[request.id] = expected(request);
    submit(number % 3 == 0 ? attention : number % 3 == 1 ? other : third, client, request);
  }
  finish_all();
  EXPECT_GT(one.metrics->refusals[ec::overloaded], 0U);
}

TEST_F(expert_dispatcher_test, a_failed_step_is_asked_again_of_a_replica) {
  start_replicated();
  start_requests();
  one.engine->fail(3, "out of memory");
  finish_all();
  EXPECT_GT(attention.metrics->retries[ec::engine_failed], 0U);
}

TEST_F(expert_dispatcher_test, an_expert_that_always_fails_fails_the_requests) {
  one = add_host("expert-0");
  load(one, all_experts());
  start_worker();
  publish(attention, one);
  one.engine->fail(1000, "device lost");
  submit(attention, client, make_request(1, 5, 5));
  ASSERT_TRUE(run_until([&] { return of(1).finished; }));
  EXPECT_EQ(of(1).failure, ec::engine_failed);
  EXPECT_EQ(of(1).failure_text, "expert-0: device lost");
  EXPECT_EQ(status_of(attention).expert_retries, 2U);
}

TEST_F(expert_dispatcher_test, an_answer_of_a_wrong_size_is_no_answer) {
  start_replicated();
  start_requests();
  one.engine->truncate(2);
  finish_all();
  EXPECT_GT(attention.metrics->retries[ec::incompatible], 0U);
}

TEST_F(expert_dispatcher_test, a_host_that_cannot_be_found_is_like_a_dead_one) {
  start_replicated();
  worker_address ghost{{55}, worker_role::expert, "ghost", ""};
  members.push_back(ghost);
  for (auto& layer : experts.layers)
    for (auto& hosts : layer.experts)
      hosts.hosts.push_back(ghost.id);
  publish(attention, one, two);
  start_requests();
  finish_all();
  EXPECT_GT(status_of(attention).expert_retries, 0U);
}

TEST_F(expert_dispatcher_test, older_views_are_ignored) {
  start_replicated();
  auto old = cluster_view{experts, {}, false};
  old.experts.epoch -= 1;
  old.experts.layers.clear();
  caf::anon_send(attention.actor, old);
  old.experts.term = 0;
  old.experts.epoch += 50;
  caf::anon_send(attention.actor, old);
  start_requests();
  finish_all();
  EXPECT_EQ(status_of(attention).placement_epoch, experts.epoch);
}

TEST_F(expert_dispatcher_test, a_view_of_another_shape_hosts_nothing_and_breaks_nothing) {
  start_replicated();
  start_requests();
  const auto right = experts.layers;
  experts.layers.resize(2);
  experts.layers[0].experts.resize(1);
  publish(attention);
  advance(2s);
  experts.layers = right;
  for (auto& layer : experts.layers)
    layer.version += 10;
  publish(attention);
  finish_all();
}

TEST_F(expert_dispatcher_test, hosts_come_and_go_under_load_and_nobody_notices) {
  start_replicated();
  const auto third = add_host("expert-2");
  load(third, all_experts());
  publish(attention, one, two, third);
  start_requests(20);
  kill(one.actor);
  start_requests(10, 100);
  remove(one.address);
  publish(attention, two, third);
  start_requests(10, 200);
  kill(two.actor);
  start_requests(10, 300);
  const auto fourth = add_host("expert-3");
  load(fourth, all_experts());
  remove(two.address);
  publish(attention, third, fourth);
  third.device->slow_down(5'000);
  start_requests(10, 400);
  finish_all();
}

} // namespace
} // namespace troupe
