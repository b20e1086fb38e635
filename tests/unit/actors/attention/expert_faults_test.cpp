// What an attention worker does when its experts hesitate, refuse or lie: the tokens stay the same.
#include "tests/unit/actors/attention/expert_dispatcher_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

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

TEST_F(expert_dispatcher_test, copies_are_not_hedged_in_their_turn) {
  start_replicated();
  start_requests(1);
  ASSERT_TRUE(run_until([&] { return tokens_of(1) >= 1; }));
  const auto before = attention.metrics->hedges;
  one.device->hang();
  two.device->hang();
  advance(9s); // no host answers, and none gets the batch again yet
  EXPECT_LE(attention.metrics->hedges - before, 2U) << "one for each host of the layer that waits";
  one.device->resume();
  two.device->resume();
  finish_all();
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
  for (auto& expert : edit(experts.layers[0]).experts)
    expert.hosts = {one.address.id};
  start_worker();
  publish(attention, two);
  submit_expecting(make_request(1, 5, 3));
  advance(9s);
  EXPECT_EQ(tokens_of(1), 0U);
  EXPECT_EQ(attention.metrics->hedges, 0U);
  place(two, all_experts());
  const auto before = now();
  publish(attention, two);
  finish_all();
  EXPECT_LT(now() - before, 100ms) << "asked as soon as it is known, not at the timeout";
  EXPECT_GE(attention.metrics->hedges, 1U);
  EXPECT_EQ(status_of(attention).expert_retries, 0U);
}

TEST_F(expert_dispatcher_test, a_mute_host_is_given_up_at_the_timeout_when_another_has_come_since) {
  two = add_host("expert-1");
  load(two, all_experts());
  add_mute_host();
  for (auto& expert : edit(experts.layers[0]).experts)
    expert.hosts = {one.address.id};
  start_worker();
  publish(attention, two);
  submit_expecting(make_request(1, 5, 3));
  advance(defaults::expert_batch_timeout + 20ms);
  EXPECT_EQ(attention.metrics->retries[ec::none], 1U);
  EXPECT_EQ(attention.metrics->hedges, 0U) << "there was nobody to hedge with";
  place(two, all_experts());
  publish(attention, two);
  finish_all();
  EXPECT_EQ(attention.metrics->retries[ec::none], 1U);
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

TEST_F(expert_dispatcher_test, complains_of_a_mute_host_that_replicas_cover_for) {
  two = add_host("expert-1");
  load(two, all_experts());
  add_mute_host();
  place(one, all_experts());
  start_worker();
  publish(attention, two);
  start_requests();
  finish_all();
  ASSERT_GT(mute_batches, 0U);
  const auto complaints = [this] { return load_of(attention).complaints; };
  EXPECT_TRUE(complaints().empty()) << "it may be slow";
  advance(defaults::engine_stall + 1s);
  ASSERT_EQ(complaints().size(), 1U) << "also once nobody waits for that answer any more";
  EXPECT_EQ(complaints()[0].about, one.address.id);
  EXPECT_GE(complaints()[0].silent_ms, 10'000U);
  remove(one.address);
  publish(attention, two);
  EXPECT_TRUE(complaints().empty()) << "whoever is gone owes nothing";
}

TEST_F(expert_dispatcher_test, a_host_that_answers_with_errors_is_not_mute) {
  one = add_host("expert-0");
  load(one, all_experts([](expert_id id) { return id.layer != 3; }));
  place(one, all_experts());
  start_worker();
  publish(attention, one);
  submit(attention, client, make_request(1, 5, 5));
  advance(defaults::engine_stall + 5s);
  EXPECT_TRUE(load_of(attention).complaints.empty());
  EXPECT_EQ(load_of(attention).at_experts, 1U);
  EXPECT_EQ(ask<lease_renewal>(attention.actor, load_atom_v)->engine.oldest_step_ms, 0U)
      << "what waits for experts is not at the engine";
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
  for (std::uint64_t number = 1; number <= 40; ++number) {
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
  for (std::uint64_t number = 1; number <= 9; ++number) {
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
    for (auto& hosts : edit(layer).experts)
      hosts.hosts.push_back(ghost.id);
  publish(attention, one, two);
  start_requests();
  finish_all();
  EXPECT_GT(status_of(attention).expert_retries, 0U);
}

} // namespace
} // namespace troupe
