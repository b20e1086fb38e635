// Which workers a restarted scheduler waits for, and how it accepts late ones.
#include <algorithm>
#include <map>
#include <set>

#include "actors/scheduler/scheduler_storage.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class recovery_test : public scheduler_fixture {
 protected:
  void start_with(std::size_t num_routers, std::size_t num_hosts, scheduler_config config = {}) {
    start(std::move(config));
    for (std::size_t index = 0; index < num_routers; ++index)
      join(attention_hello(1 + index));
    for (std::size_t index = 0; index < num_hosts; ++index)
      join(expert_hello(11 + index));
    pass(2s); // hosts have let go of what others have taken over
    ASSERT_TRUE(peers.front().log->is_ready());
    first_host = num_routers;
  }

  /// A scheduler of the next term, which knows the publications of this one. No worker has joined it yet.
  void restart(std::uint32_t min_expert_workers = 1) {
    const auto before = status();
    kill(scheduler);
    scheduler_storage storage;
    stored_cluster stored{{before.fingerprint, "cpu/float32", "cpu/float32", {4, 0, 4}}, before.experts, {}};
    for (const auto& worker : before.workers)
      stored.workers.push_back(worker.address);
    storage.stored = std::move(stored);
    scheduler_config config;
    config.term = before.term + 1;
    config.metrics = metrics;
    config.min_expert_workers = min_expert_workers;
    scheduler = root(spawn_scheduler(system, std::move(config), std::move(storage)));
    run();
    for (auto& who : peers)
      who.renews = false;
  }

  void come_back(peer& who) {
    join_again(who);
    who.renews = true;
  }

  /// The published hosts of each expert, by worker.
  std::map<std::uint64_t, std::set<expert_id>> routed() {
    std::map<std::uint64_t, std::set<expert_id>> result;
    const auto experts = status().experts;
    for (std::uint32_t layer = 0; layer < experts.layers.size(); ++layer)
      for (std::uint32_t index = 0; index < experts.layers[layer]->experts.size(); ++index)
        for (auto host : experts.layers[layer]->experts[index].hosts)
          result[host.value].insert({layer, index});
    return result;
  }

  bool is_in_view(const peer& of, std::uint64_t id) {
    const auto& workers = of.log->views.back().workers;
    return std::any_of(workers.begin(), workers.end(),
                       [id](const auto& worker) { return worker.id.value == id; });
  }

  std::size_t num_orders() const {
    std::size_t result = 0;
    for (const auto& who : peers)
      result += who.log->orders.size();
    return result;
  }

  std::size_t first_host = 0; ///< among peers
};

TEST_F(recovery_test, waits_as_long_as_workers_keep_coming_and_no_longer) {
  start_with(1, 7);
  const auto before = routed();
  const auto orders = num_orders();
  restart();
  const auto begin = now();
  for (auto& who : peers) {
    EXPECT_FALSE(status().ready) << "others are on their way";
    come_back(who);
    if (&who != &peers.back())
      pass(defaults::recovery_extension - 200ms);
  }
  EXPECT_GT(now() - begin, duration{defaults::scheduler_recovery});
  EXPECT_TRUE(status().ready) << "at once, when the last one is back";
  EXPECT_EQ(routed(), before);
  EXPECT_EQ(num_orders(), orders) << "nothing is loaded again";
}

TEST_F(recovery_test, ends_when_nobody_has_come_for_a_while) {
  start_with(1, 4);
  restart();
  come_back(peers[0]);
  pass(2900ms);
  come_back(peers[1]);
  pass(900ms);
  EXPECT_FALSE(status().ready) << "extended by the last one";
  pass(300ms);
  EXPECT_TRUE(status().ready) << "the others' experts are hosted elsewhere";
  EXPECT_EQ(routed().size(), 1U);
}

TEST_F(recovery_test, begins_anew_when_everybody_comes_late) {
  start_with(1, 6);
  const auto before = routed();
  const auto orders = num_orders();
  restart();
  pass(defaults::scheduler_recovery + 2s); // its network is not there yet
  for (auto& who : peers) {
    come_back(who);
    pass(200ms);
  }
  pass(defaults::scheduler_recovery);
  EXPECT_TRUE(status().ready);
  EXPECT_EQ(routed(), before);
  EXPECT_EQ(num_orders(), orders) << "the first one is not given all experts";
}

TEST_F(recovery_test, does_not_wait_for_a_first_placement_that_has_long_been) {
  start_with(1, 3, {.min_expert_workers = 3});
  restart(3);
  for (std::size_t at = 0; at < 3; ++at)
    come_back(peers[at]);
  EXPECT_FALSE(status().ready);
  pass(defaults::scheduler_recovery + 1s);
  EXPECT_TRUE(status().ready) << "two have all experts";
}

TEST_F(recovery_test, does_not_wait_beyond_its_limit_however_many_keep_coming) {
  start_with(1, 20);
  restart();
  const auto begin = now();
  std::size_t num_back = 0;
  while (!status().ready && num_back < peers.size()) {
    come_back(peers[num_back++]);
    pass(defaults::recovery_extension - 200ms);
  }
  EXPECT_LT(num_back, peers.size());
  EXPECT_GE(now() - begin, duration{defaults::recovery_limit});
  EXPECT_LE(now() - begin, duration{defaults::recovery_limit} + 1s);
}

TEST_F(recovery_test, an_expert_host_that_comes_late_is_routed_to_at_once_and_keeps_what_it_has) {
  start_with(1, 3);
  const auto before = routed();
  const auto orders_before = peers[first_host].log->orders.size();
  restart();
  auto& attention = peers[0];
  auto& late = peers.back();
  for (auto& who : peers)
    who.log->answers_orders = &who == &late; // the others take their time to load
  for (auto& who : peers)
    if (&who != &late)
      come_back(who);
  pass(defaults::scheduler_recovery + 200ms);
  EXPECT_FALSE(status().ready) << "nobody has its experts";
  EXPECT_EQ(peers[first_host].log->orders.size(), orders_before + 1) << "they have been ordered elsewhere";
  const auto orders = late.log->orders.size();
  come_back(late);
  EXPECT_TRUE(attention.log->is_ready()) << "it has them";
  EXPECT_EQ(routed(), before);
  EXPECT_EQ(late.log->orders.size(), orders) << "neither loads nor lets go of anything";
  for (auto& who : peers) {
    who.log->answers_orders = true;
    caf::anon_send(who.member, caf::tick_atom_v); // what was under way is loaded
  }
  pass(2s);
  EXPECT_EQ(routed(), before);
  EXPECT_EQ(late.log->orders.size(), orders);
  std::set<expert_id> held;
  for (std::size_t at = first_host; at < peers.size(); ++at)
    for (auto expert : peers[at].log->hosted)
      EXPECT_TRUE(held.insert(expert).second) << "the others have let go again";
}

TEST_F(recovery_test, a_late_host_whose_experts_others_have_loaded_meanwhile_gets_its_share_of_them) {
  start_with(1, 2);
  restart();
  auto& late = peers.back();
  for (auto& who : peers)
    if (&who != &late)
      come_back(who);
  pass(defaults::scheduler_recovery + 1s);
  EXPECT_EQ(routed().at(11).size(), 8U);
  const auto orders = late.log->orders.size();
  const std::set<expert_id> had{late.log->hosted.begin(), late.log->hosted.end()};
  come_back(late);
  pass(2s);
  EXPECT_EQ(routed().at(12), had) << "the share that it has loaded";
  EXPECT_EQ(routed().at(11).size(), 4U);
  EXPECT_EQ(late.log->orders.size(), orders);
}

TEST_F(recovery_test, an_attention_worker_that_comes_late_keeps_its_sequences) {
  start_with(2, 2);
  restart();
  auto& late = peers[1];
  terms_of<attention_terms>(late.hello).running = {{{70}, 0}};
  late.load.running = 1;
  for (auto& who : peers)
    if (&who != &late)
      come_back(who);
  pass(defaults::scheduler_recovery + 1s);
  EXPECT_TRUE(peers[0].log->is_ready()) << "the others serve";
  EXPECT_TRUE(is_in_view(peers[0], 2)) << "a gateway that does not find it replays its sequences elsewhere";
  EXPECT_EQ(admit(request_of(1)).worker(), 1U);
  EXPECT_EQ(admit(request_of(2)).worker(), 1U) << "nothing new is sent to it";
  come_back(late);
  EXPECT_TRUE(is_in_view(peers[0], 2));
  EXPECT_EQ(status().assigned, 3U) << "with its own";
  pass(defaults::recovery_limit);
  EXPECT_TRUE(is_in_view(peers[0], 2));
  EXPECT_EQ(metrics->events.back().first, "worker-joined");
}

TEST_F(recovery_test, an_attention_worker_that_does_not_come_back_is_gone_at_the_limit) {
  start_with(2, 2);
  restart();
  for (auto& who : peers)
    if (&who != &peers[1])
      come_back(who);
  pass(defaults::recovery_limit - 500ms);
  EXPECT_TRUE(is_in_view(peers[0], 2));
  pass(1s);
  EXPECT_FALSE(is_in_view(peers[0], 2));
  EXPECT_EQ(metrics->events.back().second, "attention-2 has not come back");
}

TEST_F(recovery_test, one_that_was_started_anew_is_not_missed) {
  start_with(2, 2);
  restart();
  for (auto& who : peers)
    if (&who != &peers[1])
      come_back(who);
  pass(defaults::scheduler_recovery + 1s);
  EXPECT_TRUE(is_in_view(peers[0], 2));
  auto again = attention_hello(3);
  again.address.name = "attention-2";
  join(again);
  EXPECT_FALSE(is_in_view(peers[0], 2)) << "its earlier self has died";
  EXPECT_TRUE(is_in_view(peers[0], 3));
}

} // namespace
} // namespace troupe
