// The scheduler among workers with late messages: joins, orders, confirmations, terms and leaves overlap.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"
#include "tests/unit/actors/seeded_links.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// ---------------------------------------------------------------------------------------------------------------
// Any order of events

/// Workers behind slow links. Expert hosts obey like real ones: they drop at once, load for a while,
/// sometimes fail to, and ignore older orders. Attention workers route by the last view that has reached
/// them.
class scheduler_world : public scheduler_fixture {
 public:
  explicit scheduler_world(std::uint32_t seed) : links(*this, seed, 5ms), num_replicas(1 + seed % 2) {
    SetUp();
    start({.num_replicas = num_replicas});
    for (int i = 0; i < 2; ++i)
      add(attention_hello(next_id++));
    for (int i = 0; i < 3; ++i)
      add(expert_hello(next_id++));
  }

  ~scheduler_world() override { TearDown(); }

  scheduler_world(const scheduler_world&) = delete;
  scheduler_world& operator=(const scheduler_world&) = delete;

  struct worker {
    worker_hello hello;
    fake_member_actor member;
    std::shared_ptr<fake_member_log> log = std::make_shared<fake_member_log>();
    std::size_t views_seen = 0;
    std::size_t orders_seen = 0;
    std::size_t fences_seen = 0;
    bool awaits_welcome = false;
    bool is_member = false; ///< by its own knowledge
    bool is_stuck = false;  ///< renews no lease
    bool leaves = false;
    // Attention workers.
    cluster_view uses;
    // Expert hosts.
    std::set<expert_id> loaded;
    std::pair<std::uint64_t, std::uint64_t> newest{};
    std::optional<host_order> open;
    bool has_joined_again = false; ///< the scheduler may not know what it loaded meanwhile
  };

  std::uint64_t add(worker_hello hello) {
    const auto id = hello.address.id.value;
    auto& added = workers[id];
    added.hello = std::move(hello);
    added.log->answers_orders = false;
    added.member = root(system.spawn(fake_member, added.log));
    join(id);
    renew(id);
    return id;
  }

  void join(std::uint64_t id) {
    auto& who = workers.at(id);
    who.is_member = false;
    who.awaits_welcome = true;
    who.log->welcome = caf::sec::none; // of the membership before
    auto hello = who.hello;
    if (auto* host = std::get_if<expert_terms>(&hello.of_role))
      host->hosted = {who.loaded.begin(), who.loaded.end()};
    hello.term = std::max({hello.term, who.uses.experts.term, who.newest.first});
    links.send(id, 0, [this, id, hello] {
      caf::anon_send(workers.at(id).member, caf::connect_atom_v,
                     caf::actor_cast<caf::strong_actor_ptr>(scheduler), hello);
    });
  }

  /// Every half second, with the view that the worker has at that time.
  void renew(std::uint64_t id) {
    links.later(defaults::lease_interval, [this, id] {
      const auto found = workers.find(id);
      if (found == workers.end())
        return;
      const auto& who = found->second;
      if (who.is_member && !who.is_stuck) {
        lease_renewal load;
        load.id = who.hello.address.id;
        load.term = who.uses.experts.term;
        load.epoch = who.uses.experts.epoch;
        links.send(id, 0, [this, id, load] {
          caf::anon_send(workers.at(id).member, caf::update_atom_v,
                         caf::actor_cast<caf::strong_actor_ptr>(scheduler), load);
        });
      }
      renew(id);
    });
  }

  void die(std::uint64_t id) {
    links.forget(id);
    const auto gone = std::move(workers.at(id));
    workers.erase(id);
    kill(gone.member);
  }

  void leave(std::uint64_t id) {
    workers.at(id).leaves = true;
    links.send(id, 0, [this, id] {
      root(system.spawn([this, id](caf::event_based_actor* self) -> caf::behavior {
        self->request(scheduler, 60s, caf::leave_atom_v, worker_id{id})
            .then([this, id] { left.insert(id); }, [](const caf::error&) {});
        return {[](int) {}};
      }));
    });
  }

  /// Sends the messages to workers since the last look on their way.
  void look() {
    for (auto& [number, who] : workers) {
      const auto id = number;
      for (; who.views_seen < who.log->views.size(); ++who.views_seen)
        links.send(0, id, [this, id, view = who.log->views[who.views_seen]] { use(id, view); });
      for (; who.orders_seen < who.log->orders.size(); ++who.orders_seen)
        links.send(0, id, [this, id, order = who.log->orders[who.orders_seen]] { obey(id, order); });
      if (who.awaits_welcome && who.log->welcome) {
        who.awaits_welcome = false;
        links.send(0, id, [this, id, view = who.log->held] {
          workers.at(id).is_member = true;
          use(id, view);
        });
      }
      if (who.fences_seen < who.log->fences) {
        who.fences_seen = who.log->fences;
        links.send(0, id, [this, id] {
          auto& fenced = workers.at(id);
          fenced.is_stuck = false;
          fenced.is_member = false;
          fenced.has_joined_again = true;
          if (!fenced.leaves)
            join(id);
        });
      }
    }
    for (auto id : std::exchange(left, {}))
      if (workers.contains(id))
        die(id);
  }

  void use(std::uint64_t id, const cluster_view& view) {
    auto& who = workers.at(id);
    const auto age = [](const cluster_view& x) { return std::pair{x.experts.term, x.experts.epoch}; };
    if (who.hello.address.role != worker_role::attention || age(view) <= age(who.uses))
      return;
    who.uses = view;
    if (!who.is_member)
      return;
    for (std::uint32_t layer = 0; layer < view.experts.layers.size(); ++layer)
      for (std::uint32_t index = 0; index < view.experts.layers[layer]->experts.size(); ++index)
        for (auto host : view.experts.layers[layer]->experts[index].hosts)
          if (const auto at = workers.find(host.value); at != workers.end()) {
            EXPECT_TRUE(at->second.loaded.contains({layer, index}))
                << "epoch " << view.experts.epoch << " sends (" << layer << ", " << index << ") to "
                << host.value << ", which does not have it";
          }
  }

  void obey(std::uint64_t id, const host_order& order) {
    auto& host = workers.at(id);
    const std::pair age{order.term, order.order};
    if (age < host.newest) {
      ADD_FAILURE() << "order " << order.order << " comes after order " << host.newest.second;
      return;
    }
    host.newest = age;
    if (host.open)
      report(id, *host.open, "replaced by order " + std::to_string(order.order));
    const std::set<expert_id> wanted{order.experts.begin(), order.experts.end()};
    for (auto expert : std::set{host.loaded})
      if (!wanted.contains(expert)) {
        expect_unused(id, expert);
        host.loaded.erase(expert);
      }
    host.open = order;
    links.later(links.up_to(links.one_in(5) ? 3s : 50ms), [this, id, order] { finish_load(id, order); });
  }

  void finish_load(std::uint64_t id, const host_order& order) {
    const auto found = workers.find(id);
    if (found == workers.end() || !found->second.open || found->second.open->order != order.order)
      return;
    auto& host = found->second;
    const auto fails = is_rough && links.one_in(6);
    for (auto expert : order.experts)
      if (!fails || links.one_in(2))
        host.loaded.insert(expert);
    report(id, order, fails ? "cannot read model-00001.safetensors" : "");
  }

  void report(std::uint64_t id, const host_order& order, const std::string& error) {
    auto& host = workers.at(id);
    host.open.reset();
    const host_report said{order.term, order.order, {host.loaded.begin(), host.loaded.end()}, error};
    links.send(id, 0, [this, id, said] { caf::anon_send(workers.at(id).member, caf::put_atom_v, said); });
  }

  /// No member may send rows for the expert to this host any more.
  void expect_unused(std::uint64_t host, expert_id expert) {
    for (const auto& [id, who] : workers)
      if (who.is_member && !who.is_stuck && expert.layer < who.uses.experts.layers.size()) {
        const auto& hosts = who.uses.experts.layers[expert.layer]->experts[expert.index].hosts;
        EXPECT_TRUE(std::find(hosts.begin(), hosts.end(), worker_id{host}) == hosts.end())
            << "worker " << id << " uses (" << expert.layer << ", " << expert.index << ") of host " << host
            << ", which is ordered to drop it";
      }
  }

  std::uint64_t some(worker_role role, std::size_t least) {
    std::vector<std::uint64_t> ids;
    for (const auto& [id, who] : workers)
      if (who.hello.address.role == role && !who.leaves)
        ids.push_back(id);
    return ids.size() <= least ? 0 : ids[links.below(static_cast<std::uint32_t>(ids.size()))];
  }

  void do_something() {
    const auto role = links.one_in(3) ? worker_role::attention : worker_role::expert;
    switch (links.below(10)) {
    case 0:
    case 1:
      if (workers.size() < 9)
        add(role == worker_role::attention ? attention_hello(next_id++) : expert_hello(next_id++));
      break;
    case 2:
      if (const auto id = some(role, 1); id != 0)
        die(id);
      break;
    case 3:
      if (const auto id = some(role, 1); id != 0)
        leave(id);
      break;
    case 4: // its welcome came too late for it
      if (const auto id = some(worker_role::attention, 0); id != 0 && workers.at(id).is_member)
        join(id);
      break;
    case 5:
      if (const auto id = some(role, 1); id != 0)
        workers.at(id).is_stuck = true;
      break;
    case 6: // a worker has seen a newer term
      if (links.one_in(3)) {
        auto hello = expert_hello(next_id++);
        hello.term = status().term + links.below(3);
        add(hello);
      }
      break;
    default:
      asked.push_back(&admit(request_of(++last_request)));
      links.later(links.up_to(2s), [this, id = last_request] { done(id); });
    }
  }

  void play() {
    for (int step = 0; step < 40; ++step) {
      links.pass(links.up_to(links.one_in(4) ? 1s : 60ms), [this] { look(); });
      do_something();
    }
    is_rough = false;
    if (some(worker_role::attention, 0) == 0)
      add(attention_hello(next_id++));
    links.pass(45s, [this] { look(); }); // longer than a drain, a lease, and the pause after failures
  }

  void expect_rest() {
    const auto now_is = status();
    EXPECT_TRUE(now_is.ready);
    EXPECT_EQ(now_is.workers.size(), workers.size());
    EXPECT_EQ(now_is.queued, 0U);
    EXPECT_EQ(now_is.assigned, 0U) << "all requests are over";
    for (const auto* one : asked)
      EXPECT_TRUE(one->is_here) << "a request was never answered";
    std::size_t num_hosts = 0;
    std::map<std::uint64_t, std::set<expert_id>> routed;
    for (std::uint32_t layer = 0; layer < now_is.experts.layers.size(); ++layer)
      for (std::uint32_t index = 0; index < now_is.experts.layers[layer]->experts.size(); ++index)
        for (auto host : now_is.experts.layers[layer]->experts[index].hosts)
          routed[host.value].insert({layer, index});
    std::size_t num_routed = 0;
    for (const auto& [id, who] : workers) {
      if (who.hello.address.role == worker_role::attention) {
        EXPECT_EQ(who.uses.experts, now_is.experts) << "worker " << id << " goes by another view";
        continue;
      }
      ++num_hosts;
      num_routed += routed[id].size();
      const auto& wanted = routed[id];
      EXPECT_TRUE(std::includes(who.loaded.begin(), who.loaded.end(), wanted.begin(), wanted.end()))
          << "host " << id << " does not hold what it should";
      EXPECT_TRUE(who.loaded.size() == wanted.size() || who.has_joined_again)
          << "host " << id << " holds more than it should";
      EXPECT_FALSE(who.open) << "host " << id << " has an order that does not end";
    }
    EXPECT_EQ(num_routed, 8U * std::min<std::size_t>(num_replicas, num_hosts));
  }

  seeded_links links;
  std::uint32_t num_replicas;
  std::map<std::uint64_t, worker> workers; ///< live ones, by id; 0 is the scheduler
  std::set<std::uint64_t> left;
  std::vector<answer*> asked;
  std::uint64_t next_id = 1;
  std::uint64_t last_request = 0;
  bool is_rough = true;

 private:
  void TestBody() override {}
};

TEST(scheduler_overlap, property_late_messages_lose_nothing_and_release_nothing_in_use) {
  for_each_seed(300, [](std::uint32_t seed) {
    scheduler_world world{seed};
    world.play();
    world.expect_rest();
  });
}

// ---------------------------------------------------------------------------------------------------------------
// One overlap each

class scheduler_overlap_test : public scheduler_fixture {
 protected:
  peer& join_late(worker_hello hello) {
    auto& added = peers.emplace_back();
    added.hello = std::move(hello);
    added.load.id = added.hello.address.id;
    added.log->answers_orders = false;
    added.member = root(system.spawn(fake_member, added.log));
    join_again(added);
    return added;
  }

  void answer_order(peer& who, std::size_t index, const std::string& error = {}) {
    const auto& order = who.log->orders.at(index);
    const auto hosted = error.empty() ? order.experts : std::vector<expert_id>{};
    caf::anon_send(who.member, caf::put_atom_v, host_report{order.term, order.order, hosted, error});
    settle();
  }

  /// A renewal that confirms this view.
  void confirm(peer& who, std::uint64_t term, std::uint64_t epoch) {
    auto load = who.load;
    load.term = term;
    load.epoch = epoch;
    caf::anon_send(who.member, caf::update_atom_v, caf::actor_cast<caf::strong_actor_ptr>(scheduler), load);
    settle();
  }
};

TEST_F(scheduler_overlap_test, the_answer_to_an_order_from_before_a_rejoin_is_void) {
  start();
  join(attention_hello(1));
  auto& host = join_late(expert_hello(11));
  ASSERT_EQ(host.log->orders.size(), 1U);
  join_again(host);
  ASSERT_EQ(host.log->orders.size(), 2U) << "the order of before is not waited for";
  EXPECT_GT(host.log->orders[1].order, host.log->orders[0].order);
  answer_order(host, 0, "replaced by order 2");
  pass(1s);
  EXPECT_EQ(host.log->orders.size(), 2U) << "the second is still under way";
  EXPECT_EQ(metrics->count("host-order-failed"), 0U);
  answer_order(host, 1);
  EXPECT_TRUE(status().ready);
}

TEST_F(scheduler_overlap_test, a_dead_attention_worker_holds_no_release_back) {
  start_ready(1);
  auto& stays = join(attention_hello(2));
  pass(1s);
  peers[0].confirms = false;
  join(expert_hello(12));
  pass(1s);
  EXPECT_EQ(peers[1].log->hosted.size(), 8U) << "the first has not confirmed";
  die(peers[0]);
  pass(1s);
  EXPECT_TRUE(stays.log->is_ready());
  EXPECT_EQ(peers[1].log->hosted.size(), 4U);
}

TEST_F(scheduler_overlap_test, a_confirmation_of_an_older_term_releases_nothing) {
  start_ready(1);
  auto& attention = peers[0];
  pass(1s);
  attention.confirms = false;
  auto stranger = expert_hello(12);
  stranger.term = 7;
  join(stranger);
  pass(1s);
  ASSERT_EQ(status().term, 8U);
  ASSERT_EQ(peers[1].log->hosted.size(), 8U);
  confirm(attention, 1, 1000);
  pass(1s);
  EXPECT_EQ(peers[1].log->hosted.size(), 8U) << "epoch 1000 was the other term's";
  attention.confirms = true;
  pass(1s);
  EXPECT_EQ(peers[1].log->hosted.size(), 4U);
}

TEST_F(scheduler_overlap_test, a_new_term_takes_older_confirmations_back) {
  start_ready(1);
  auto& attention = peers[0];
  for (std::uint64_t id = 2; id <= 8; ++id) { // epochs pass, and all are confirmed
    join(attention_hello(id));
    pass(1s);
  }
  for (auto& who : peers)
    who.confirms = false;
  auto stranger = expert_hello(12);
  stranger.term = 7;
  join(stranger);
  pass(1s);
  ASSERT_LT(status().experts.epoch, 7U) << "they are counted anew";
  EXPECT_EQ(peers[1].log->hosted.size(), 8U) << "what was confirmed were epochs of the term before";
  EXPECT_TRUE(attention.log->is_ready());
}

TEST_F(scheduler_overlap_test, no_lease_reaches_into_the_future_after_a_pause) {
  start_ready();
  pass(1s);
  // A renewal lies before the tick in the mailbox of a scheduler that stands still.
  auto& silent = peers[1];
  caf::anon_send(silent.member, caf::update_atom_v, caf::actor_cast<caf::strong_actor_ptr>(scheduler),
                 silent.load);
  ASSERT_TRUE(coordinator.try_run_once());
  coordinator.advance_time(10s);
  run();
  ASSERT_EQ(metrics->count("scheduler-late"), 1U);
  silent.renews = false;
  pass(defaults::lease - 200ms);
  EXPECT_EQ(silent.log->fences, 0U);
  pass(400ms);
  EXPECT_EQ(silent.log->fences, 1U) << "a lease after its last word, not twelve seconds";
}

TEST_F(scheduler_overlap_test, a_worker_that_joins_again_takes_no_place_twice) {
  start_ready();
  EXPECT_EQ(admit(request_of(1)).worker(), 1U);
  terms_of<attention_terms>(peers[0].hello).running = {{{1}, 0}};
  for (int i = 0; i < 3; ++i)
    join_again(peers[0]);
  EXPECT_EQ(status().assigned, 1U);
  for (std::uint64_t id = 2; id <= 4; ++id)
    EXPECT_EQ(admit(request_of(id)).worker(), 1U) << "three of four seats are free";
  EXPECT_FALSE(admit(request_of(5)).is_here);
}

TEST_F(scheduler_overlap_test, a_request_without_a_host_for_its_experts_ends_as_not_ready) {
  start();
  join(attention_hello(1));
  auto& early = admit(request_of(1));
  pass(10200ms);
  EXPECT_EQ(early.code(), ec::not_ready);
}

TEST_F(scheduler_overlap_test, who_asks_twice_to_leave_is_answered_twice) {
  start_ready();
  admit(request_of(1));
  std::vector<bool> answers_to_leave;
  const auto ask_to_leave = [&] {
    root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
      self->request(scheduler, 60s, caf::leave_atom_v, worker_id{1})
          .then([&] { answers_to_leave.push_back(true); },
                [&](const caf::error&) { answers_to_leave.push_back(false); });
      return {[](int) {}};
    }));
    run();
  };
  ask_to_leave();
  ask_to_leave();
  EXPECT_EQ(answers_to_leave, (std::vector{false})) << "the first question is void";
  done(1);
  EXPECT_EQ(answers_to_leave, (std::vector{false, true}));
}

} // namespace
} // namespace troupe
