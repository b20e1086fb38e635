// Overlaps of expert batches: answers after a batch was sent again, late replicas, and hosts that lose
// experts, hang, fail and die meanwhile.
#include <cstdlib>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "tests/unit/actors/attention/expert_dispatcher_fixture.hpp"
#include "tests/unit/actors/seeded_links.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// ---------------------------------------------------------------------------------------------------------------
// Any order of events

/// An attention worker, and hosts with changing orders. Views are late: they list experts that are not loaded
/// yet, and omit hosts that serve already.
class serving_world : public serving_system {
 public:
  explicit serving_world(std::uint32_t seed) : links(*this, seed, 2ms) {
    SetUp();
    for (int i = 0; i < 3; ++i)
      add();
    attention_worker_config config;
    config.max_micro_batches = config.min_micro_batches = 1 + links.below(3);
    attention = add_worker("attention-0", config);
    client = add_client(results);
    reorder(hosts.begin()->first);
    links.pass(1s);
  }

  ~serving_world() override { TearDown(); }

  serving_world(const serving_world&) = delete;
  serving_world& operator=(const serving_world&) = delete;

  struct expert_worker {
    host is;
    std::set<expert_id> wanted; ///< by the last order
  };

  void add() {
    auto added = add_host("expert-" + std::to_string(++num_added));
    const auto id = added.address.id.value;
    hosts[id].is = std::move(added);
  }

  /// Gives a host other experts; experts without a host go to others. The worker's view follows later.
  void reorder(std::uint64_t id) {
    hosts.at(id).wanted.clear();
    for (auto expert : all_experts())
      if (links.below(3) < 2)
        hosts.at(id).wanted.insert(expert);
    cover();
  }

  void cover() {
    for (auto expert : all_experts())
      if (std::none_of(hosts.begin(), hosts.end(),
                       [expert](const auto& entry) { return entry.second.wanted.contains(expert); })) {
        auto at = hosts.begin();
        std::advance(at, links.below(static_cast<std::uint32_t>(hosts.size())));
        at->second.wanted.insert(expert);
      }
    for (auto& [id, at] : hosts) {
      const host_order order{experts.term, ++last_order, {at.wanted.begin(), at.wanted.end()}};
      caf::anon_send(at.is.actor, order);
    }
    run();
    tell_placement();
  }

  void tell_placement() {
    for (auto& layer : experts.layers)
      for (auto& expert : edit(layer).experts)
        expert.hosts.clear();
    for (const auto& [id, at] : hosts)
      place(at.is, {at.wanted.begin(), at.wanted.end()});
    links.later(links.up_to(300ms), [this] { publish(attention); });
  }

  void die(std::uint64_t id) {
    const auto gone = std::move(hosts.at(id).is);
    hosts.erase(id);
    kill(gone.actor);
    remove(gone.address);
    cover();
  }

  void submit_one() {
    const auto number = ++num_requests;
    const auto request =
        make_request(number, 1 + links.below(24), 1 + static_cast<std::int32_t>(links.below(16)));
    wanted[request.id] = expected(request);
    submit(attention, client, request);
  }

  void do_something() {
    auto any = hosts.begin();
    std::advance(any, links.below(static_cast<std::uint32_t>(hosts.size())));
    const auto id = any->first;
    const auto device = any->second.is.device;
    switch (links.below(9)) {
    case 0:
      reorder(id);
      break;
    case 1:
      device->hang();
      links.later(links.up_to(links.one_in(3) ? 15s : 500ms), [device] { device->resume(); });
      break;
    case 2:
      device->slow_down(links.one_in(2) ? 20'000 : 50);
      links.later(links.up_to(300ms), [device] { device->slow_down(1); });
      break;
    case 3:
      if (hosts.size() > 2)
        die(id);
      break;
    case 4:
      if (hosts.size() < 5) {
        add();
        reorder(hosts.rbegin()->first);
      }
      break;
    case 5: // one flawed step: it may hold a batch and its copy, and the third flaw of a layer is given back
      if (num_flaws++ > 0)
        break;
      if (links.one_in(2))
        any->second.is.engine->fail(1, "out of memory");
      else
        any->second.is.engine->truncate(1);
      break;
    default:
      submit_one();
    }
  }

  void play() {
    for (int step = 0; step < 30; ++step) {
      links.pass(links.up_to(links.one_in(6) ? 2s : 10ms));
      do_something();
      submit_one();
    }
    links.pass(60s);               // hung hosts are back, the worker knows the placement, and pauses are over
    for (auto& [id, at] : hosts) { // a flaw that has had no step yet
      at.is.engine->fail(0, "");
      at.is.engine->truncate(0);
    }
    finish();
  }

  void finish() {
    EXPECT_TRUE(run_until([this] { return all_finished(results, wanted.size()); }, 300s))
        << "a request is lost";
    for (const auto& [id, output] : wanted) {
      EXPECT_EQ(results[id].failure, ec::none) << results[id].failure_text;
      EXPECT_EQ(results[id].output, output) << "request " << id.request.value;
    }
    EXPECT_EQ(status_of(attention).kv_blocks_used, 0U);
  }

  /// Past faults exclude no host from work.
  void expect_everybody_gets_work() {
    const auto hedges = attention.metrics->hedges;
    const auto retries = status_of(attention).expert_retries;
    std::map<std::uint64_t, std::uint64_t> before;
    for (const auto& [id, at] : hosts)
      before[id] = at.is.metrics->steps;
    for (int i = 0; i < 12; ++i)
      submit_one();
    finish();
    for (const auto& [id, at] : hosts)
      if (at.wanted.size() > 4)
        EXPECT_GT(at.is.metrics->steps, before[id]) << at.is.address.name << " gets nothing any more";
    EXPECT_EQ(attention.metrics->hedges, hedges) << "nobody is slow any more";
    EXPECT_EQ(status_of(attention).expert_retries, retries) << "and nobody fails";
  }

  seeded_links links;
  std::map<std::uint64_t, expert_worker> hosts;
  worker attention;
  outcomes results;
  std::map<sequence_id, hash_model_output> wanted;
  token_receiver_actor client;
  std::uint64_t last_order = 1000;
  std::uint64_t num_requests = 0;
  int num_added = 0;
  int num_flaws = 0;

 private:
  void TestBody() override {}
};

TEST(expert_overlap, property_rows_come_back_once_whatever_hosts_do) {
  std::uint64_t num_hedges = 0;
  std::uint64_t num_not_hosted = 0;
  std::uint64_t num_timeouts = 0;
  const auto* alone = std::getenv("TROUPE_SEED"); // NOLINT(concurrency-mt-unsafe)
  for_each_seed(100, [&](std::uint32_t seed) {
    serving_world world{seed};
    world.play();
    world.expect_everybody_gets_work();
    num_hedges += world.attention.metrics->hedges;
    num_not_hosted += world.attention.metrics->retries[ec::not_hosted];
    num_timeouts += world.attention.metrics->retries[ec::none];
  });
  if (alone != nullptr || HasFailure())
    return;
  EXPECT_GT(num_hedges, 20U) << "nothing was slow";
  EXPECT_GT(num_not_hosted, 20U) << "no view was late";
  EXPECT_GT(num_timeouts, 5U) << "nothing hung";
}

// ---------------------------------------------------------------------------------------------------------------
// One overlap each

class expert_overlap_test : public expert_dispatcher_test {
 public:
  /// `host` alone has layer 0, `two` has the rest.
  void start_with_layer_0_at(const host& at) {
    for (auto& expert : edit(experts.layers[0]).experts)
      expert.hosts = {at.address.id};
    start_worker();
    publish(attention, two);
  }

  std::uint64_t retries(ec code) { return attention.metrics->retries[code]; }

  /// One host with every expert, so slow that its first batch takes longer than the timeout.
  void start_slow() {
    one = add_host("expert-0");
    load(one, all_experts());
    start_worker();
    publish(attention, one);
    one.device->slow_down(40'000);
    submit_expecting(make_request(1, 5, 3));
    advance(1s); // the batch of layer 0 is with the engine
  }

  void add_replica() {
    two = add_host("expert-1");
    load(two, all_experts());
    publish(attention, one, two);
  }
};

TEST_F(expert_overlap_test, the_death_of_a_host_is_no_reason_to_send_a_repeated_batch_again) {
  two = add_host("expert-1");
  load(two, all_experts());
  add_mute_host();
  start_with_layer_0_at(one);
  submit_expecting(make_request(1, 5, 3));
  advance(defaults::expert_batch_timeout + 1s);
  EXPECT_EQ(mute_batches, 2U) << "sent once more";
  EXPECT_EQ(retries(ec::none), 1U);
  kill(one.actor);
  advance(100ms);
  EXPECT_EQ(status_of(attention).expert_retries, 2U)
      << "the copy is lost with the host, the original was given up";
  place(two, all_experts());
  remove(one.address);
  publish(attention, two);
  finish_all();
  EXPECT_EQ(status_of(attention).expert_retries, 2U);
  EXPECT_EQ(attention.metrics->hedges, 0U);
}

TEST_F(expert_overlap_test, a_batch_is_sent_once_more_and_its_copy_after_twice_the_time) {
  add_mute_host();
  load(one, all_experts());
  start_worker();
  publish(attention);
  submit(attention, client, make_request(1, 5, 3));
  advance(3 * defaults::expert_batch_timeout - 1s);
  EXPECT_EQ(mute_batches, 2U);
  EXPECT_EQ(retries(ec::none), 1U) << "the original was given up, and the copy has 20 s";
  advance(2s);
  EXPECT_EQ(mute_batches, 3U);
  EXPECT_EQ(retries(ec::none), 2U);
}

TEST_F(expert_overlap_test, a_host_whose_answer_came_after_all_gets_work_again) {
  start_slow();
  advance(defaults::expert_batch_timeout);
  EXPECT_EQ(retries(ec::none), 1U);
  one.device->slow_down(1);
  add_replica();
  finish_all(); // by the late answer of the original, with its copy still under way
  advance(60s);
  const auto before = one.metrics->steps;
  const auto before_two = two.metrics->steps;
  start_requests(12, 100);
  finish_all();
  EXPECT_GT(one.metrics->steps, before) << "it owes nothing any more";
  EXPECT_GT(two.metrics->steps, before_two);
}

TEST_F(expert_overlap_test, a_replica_that_comes_late_is_asked_at_once) {
  start_slow();
  advance(2s); // too late already, and no other host to ask
  EXPECT_EQ(attention.metrics->hedges, 0U);
  const auto before = now();
  add_replica();
  ASSERT_TRUE(run_until([&] { return of(1).finished; }, 10s));
  EXPECT_LT(now() - before, 1s + 40 * costs.expert_load) << "not after the timeout";
  EXPECT_GE(attention.metrics->hedges, 1U);
  EXPECT_EQ(status_of(attention).expert_retries, 0U);
  finish_all();
}

TEST_F(expert_overlap_test, a_host_that_has_loaded_since_is_asked_without_a_new_view) {
  one = add_host("expert-0");
  start_worker();
  place(one, all_experts()); // the view runs ahead of the load
  publish(attention, one);
  submit_expecting(make_request(1, 5, 3));
  advance(100ms);
  EXPECT_GT(retries(ec::not_hosted), 0U);
  ASSERT_TRUE(ask_within<host_report>(60s, one.actor, host_order{1, 9, all_experts()}));
  const auto before = now();
  finish_all();
  EXPECT_LT(now() - before, defaults::reconnect_max + 1s);
}

TEST_F(expert_overlap_test, a_view_that_brings_a_host_is_acted_on_before_the_next_tick) {
  const auto of_layer_3 = all_experts([](expert_id id) { return id.layer == 3; });
  one = add_host("expert-0");
  two = add_host("expert-1");
  load(one, all_experts([](expert_id id) { return id.layer != 3; }));
  load(two, of_layer_3);
  for (auto& expert : edit(experts.layers[3]).experts)
    expert.hosts.clear();
  start_worker();
  publish(attention, one, two);
  submit_expecting(make_request(1, 5, 3));
  advance(1010ms); // ticks come every 25 ms
  EXPECT_EQ(two.metrics->steps, 0U);
  place(two, of_layer_3);
  publish(attention, one, two);
  advance(2ms);
  EXPECT_GT(two.metrics->steps, 0U);
  finish_all();
}

TEST_F(expert_overlap_test, rows_of_hosts_that_fail_together_go_to_one_host) {
  one = add_host("expert-0");
  two = add_host("expert-1");
  load(one, all_experts([](expert_id id) { return id.index >= 4; }));
  load(two, all_experts([](expert_id id) { return id.index < 4; }));
  start_worker();
  publish(attention, one, two);
  start_requests(12);
  for (const auto& at : {one, two})
    at.device->hang();
  advance(5ms); // both sit on batches of the same layer
  kill(one.actor);
  kill(two.actor); // their remaining parts are not in the order of experts
  remove(one.address);
  remove(two.address);
  const auto third = add_host("expert-2");
  load(third, all_experts());
  publish(attention, third);
  finish_all();
  EXPECT_EQ(retries(ec::bad_request), 0U);
  EXPECT_EQ(third.metrics->refusals.count(ec::bad_request), 0U);
}

TEST_F(expert_overlap_test, rows_of_a_batch_and_its_hedge_that_both_fail_are_computed_once) {
  start_replicated();
  start_requests(12);
  for (const auto& at : {one, two})
    at.device->hang();
  ASSERT_TRUE(run_until([&] { return attention.metrics->hedges > 0; }, 10s));
  kill(one.actor);
  kill(two.actor);
  remove(one.address);
  remove(two.address);
  const auto third = add_host("expert-2");
  load(third, all_experts());
  publish(attention, third);
  finish_all();
  EXPECT_EQ(third.metrics->refusals.count(ec::bad_request), 0U);
}

TEST_F(expert_overlap_test, an_attempt_that_comes_twice_is_computed_once) {
  start_replicated();
  const auto request = make_request(1, 8, 24);
  submit_expecting(request);
  ASSERT_TRUE(run_until([&] { return tokens_of(1) >= 3; }));
  submit(attention, client, request);
  finish_all();
  EXPECT_EQ(attention.metrics->rows, 8U + 23U) << "the prompt, and every token but the last";
}

TEST_F(expert_overlap_test, a_cancel_of_an_older_attempt_does_not_end_the_newer_one) {
  start_replicated();
  auto request = make_request(1, 8, 24);
  request.attempt = 2;
  submit_expecting(request);
  ASSERT_TRUE(run_until([&] { return tokens_of(1) >= 3; }));
  caf::anon_send(attention.actor, cancel_atom_v, request.id, std::uint32_t{1});
  finish_all();
}

TEST_F(expert_overlap_test, the_failure_of_an_older_attempt_is_not_told_as_that_of_the_newer_one) {
  start_replicated();
  auto request = make_request(1, 8, 24);
  submit(attention, client, request);
  run(); // it is with the engine
  attention.engine->fail(1, "device lost");
  request.attempt = 1;
  submit_expecting(request);
  finish_all();
  EXPECT_EQ(attention.metrics->failures.count(ec::engine_failed), 0U);
}

TEST_F(expert_overlap_test, a_dead_host_owes_nothing_though_the_view_still_names_it) {
  two = add_host("expert-1");
  load(two, all_experts());
  add_mute_host();
  place(one, all_experts());
  start_worker();
  publish(attention, two);
  start_requests();
  finish_all();
  ASSERT_GT(mute_batches, 0U);
  kill(one.actor);
  advance(defaults::engine_stall + 1s);
  EXPECT_TRUE(load_of(attention).complaints.empty());
}

TEST_F(expert_overlap_test, a_host_that_answers_again_is_avoided_no_longer_than_the_first_time) {
  one = add_host("expert-0");
  load(one, all_experts());
  start_worker();
  publish(attention, one);
  for (std::uint64_t number = 1; number <= 6; ++number) {
    one.engine->fail(1, "out of memory");
    const auto before = now();
    submit_expecting(make_request(number, 5, 3));
    finish_all();
    EXPECT_LT(now() - before, 2 * defaults::reconnect_min) << "failure " << number;
  }
}

} // namespace
} // namespace troupe
