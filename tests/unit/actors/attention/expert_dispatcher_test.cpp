// What an attention worker does when its experts die, come or move: the tokens stay the same.
#include <array>

#include "tests/unit/actors/attention/expert_dispatcher_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

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
  for (std::uint64_t number = 1; number <= 40; ++number) {
    const auto request = make_request(number, 5, 10);
    wanted[request.id] = expected(request);
    submit(workers[number % 4], client, request);
  }
  finish_all();
  EXPECT_GE(one.metrics->most_merged, 2U);
}

TEST_F(expert_dispatcher_test, a_host_that_others_keep_busy_gets_less) {
  const auto run_beside = [&](std::uint64_t queued_rows) {
    results.clear();
    wanted.clear();
    members.clear();
    for (auto& layer : experts.layers)
      for (auto& entry : edit(layer).experts)
        entry.hosts.clear();
    const auto real = add_host("behind");
    load(real, all_experts());
    two = add_host("free");
    load(two, all_experts());
    remove(real.address);
    std::uint64_t asked = 0;
    one.address = {{queued_rows + 1000}, worker_role::expert, "busy-" + std::to_string(queued_rows), ""};
    one.actor =
        root(system.spawn(puppet, [&, real](expert_host_actor::pointer self, const expert_batch& batch) {
          ++asked;
          auto promise = self->make_response_promise<expert_result>();
          self->request(real.actor, std::chrono::seconds{60}, batch)
              .then([promise, queued_rows](expert_result& done) mutable {
                done.queued_rows += queued_rows;
                promise.deliver(std::move(done));
              });
          return caf::result<expert_result>{promise};
        }));
    members.push_back(one.address);
    place(one, all_experts());
    caf::anon_send(directory, caf::publish_atom_v, one.address.name,
                   caf::actor_cast<caf::strong_actor_ptr>(one.actor));
    start_worker();
    publish(attention, one, two);
    start_requests();
    finish_all();
    const std::array<std::uint64_t, 2> at_first{asked, two.metrics->batches};
    advance(defaults::queue_news);
    start_requests(6, 100);
    EXPECT_GT(asked, at_first[0]) << "it is asked again once its word is old";
    finish_all();
    return at_first;
  };
  const auto [as_free, others] = run_beside(0);
  EXPECT_GT(2 * as_free, others) << "equals share evenly";
  EXPECT_GT(2 * others, as_free);
  const auto [as_busy, rest] = run_beside(1'000'000);
  EXPECT_LT(8 * as_busy, rest);
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
  std::uint64_t used = 0;
  for (std::uint64_t number = 1; examples.size() < 2; ++number) {
    const auto request = make_request(number, 2, 2);
    submit_expecting(request);
    finish_all();
    const auto counts = *ask<activation_counts_ptr>(attention.actor, caf::get_atom_v);
    examples[counts->rows[3][7] > used] = request;
    used = counts->rows[3][7];
  }
  results.clear();
  wanted.clear();
  std::erase(edit(experts.layers[3]).experts[7].hosts, one.address.id);
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
  std::erase(edit(experts.layers[2]).experts[1].hosts, two.address.id);
  place(one, all_experts(moved));
  start_worker();
  publish(attention, one, two);
  for (std::uint64_t number = 1; number <= 6; ++number)
    submit_expecting(make_request(number, 12, 6));
  advance(300ms);
  EXPECT_FALSE(all_finished(results, wanted.size()));
  EXPECT_GT(attention.metrics->retries[ec::not_hosted], 0U);
  EXPECT_LT(attention.metrics->retries[ec::not_hosted], 5U) << "it waits instead of asking again and again";
  truth.term = experts.term;
  truth.epoch = experts.epoch;
  experts = truth;
  for (auto& layer : experts.layers)
    edit(layer).version = 7;
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
  edit(experts.layers[0]).experts.resize(1);
  publish(attention);
  advance(2s);
  experts.layers = right;
  for (auto& layer : experts.layers)
    edit(layer).version += 10;
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
