// The order of publication and disk, and the scheduler's reaction to a lost lease or disk.
#include <filesystem>

#include "actors/scheduler/cluster_store.hpp"
#include "actors/scheduler/scheduler_storage.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

struct disk {
  std::vector<stored_cluster_ptr> saves; ///< that were asked for
  bool hangs = false;
  std::string failure; ///< not empty: saves fail so
};

struct disk_state {
  static inline const char* name = "fake_disk";
  std::vector<caf::typed_response_promise<caf::unit_t>> open;
};

using fake_disk_actor = cluster_store_writer_actor::extend<
    // Finishes hanging saves.
    caf::reacts_to<caf::tick_atom>>;

fake_disk_actor::behavior_type fake_disk(fake_disk_actor::stateful_pointer<disk_state> self,
                                         std::shared_ptr<disk> log) {
  return {
      [self, log](caf::put_atom, const stored_cluster_ptr& cluster) -> caf::result<void> {
        log->saves.push_back(cluster);
        if (!log->failure.empty())
          return make_error(ec::engine_failed, log->failure);
        if (!log->hangs)
          return caf::unit;
        return self->state.open.emplace_back(self->make_response_promise<caf::unit_t>());
      },
      [self](caf::tick_atom) {
        for (auto& promise : std::exchange(self->state.open, {}))
          promise.deliver(caf::unit);
      },
  };
}

class storage_test : public scheduler_fixture {
 protected:
  std::string state_dir() {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    return ::testing::TempDir() + "troupe-" + info->test_suite_name() + "-" + info->name();
  }

  void SetUp() override {
    scheduler_fixture::SetUp();
    std::filesystem::remove_all(state_dir());
  }

  void TearDown() override {
    scheduler_fixture::TearDown();
    std::filesystem::remove_all(state_dir());
  }

  /// With a fake disk, and two expert workers and an attention worker that have joined.
  void start_on_disk() {
    metrics = std::make_shared<recording_metrics>();
    writer = root(system.spawn(fake_disk, log));
    scheduler_config config;
    config.metrics = metrics;
    scheduler_storage storage;
    storage.writer = writer;
    scheduler = root(spawn_scheduler(system, std::move(config), std::move(storage)));
    run();
    join(attention_hello(1));
    join(expert_hello(11));
    join(expert_hello(12));
  }

  /// The next term, as taken by a standby that has seen no renewal for a lease.
  std::unique_ptr<scheduler_lease> take_over() {
    lease_watch standby{state_dir(), "standby"};
    const lease_watch::time_point begin{1h};
    const auto nothing = [] { return std::uint64_t{0}; };
    EXPECT_FALSE(standby.look(begin, nothing)) << "the lease is locked";
    auto lease = standby.look(begin + defaults::scheduler_lease, nothing);
    EXPECT_TRUE(lease);
    return lease;
  }

  std::shared_ptr<disk> log = std::make_shared<disk>();
  fake_disk_actor writer;
};

TEST_F(storage_test, what_is_published_is_saved) {
  start_ready(2, {.state_dir = state_dir()});
  const auto stored = cluster_store{state_dir()}.load();
  ASSERT_TRUE(stored.cluster);
  EXPECT_EQ(stored.cluster->experts, status().experts);
  EXPECT_EQ(stored.cluster->identity.fingerprint, "model-a");
  EXPECT_EQ(stored.cluster->workers.size(), 3U);
  EXPECT_EQ(stored.term, 1U);
}

TEST_F(storage_test, views_go_out_though_the_disk_hangs_and_the_newest_is_saved_when_it_comes_back) {
  log->hangs = true;
  start_on_disk();
  EXPECT_TRUE(peers[0].log->is_ready());
  EXPECT_EQ(admit(request_of(1)).worker(), 1U);
  ASSERT_EQ(log->saves.size(), 1U) << "one at a time";
  die(peers[2]);
  EXPECT_TRUE(peers[0].log->is_ready()) << "a death does not wait for the disk either";
  pass(20s);
  ASSERT_EQ(log->saves.size(), 1U);
  EXPECT_EQ(metrics->count("placement-not-saved"), 1U) << "told once";
  log->hangs = false;
  caf::anon_send(writer, caf::tick_atom_v);
  settle();
  ASSERT_EQ(log->saves.size(), 2U) << "the newest alone";
  EXPECT_EQ(log->saves.back()->experts, status().experts);
  EXPECT_EQ(log->saves.back()->workers.size(), 2U);
  join(expert_hello(13));
  EXPECT_EQ(log->saves.back()->experts, status().experts) << "and so on";
}

TEST_F(storage_test, a_disk_that_fails_is_told_and_tried_again_with_the_newest) {
  log->failure = "cannot sync '/state/placement': No space left on device";
  start_on_disk();
  EXPECT_TRUE(peers[0].log->is_ready());
  EXPECT_EQ(log->saves.size(), 1U) << "not at every view";
  EXPECT_EQ(metrics->count("placement-not-saved"), 1U);
  pass(3 * defaults::slow_save);
  EXPECT_LE(log->saves.size(), 4U);
  EXPECT_GE(log->saves.size(), 3U);
  log->failure.clear();
  pass(defaults::slow_save + 1s);
  EXPECT_EQ(log->saves.back()->experts, status().experts);
  const auto num_saves = log->saves.size();
  pass(3 * defaults::slow_save);
  EXPECT_EQ(log->saves.size(), num_saves) << "it is saved";
}

TEST_F(storage_test, a_scheduler_with_an_older_store_takes_its_workers_word) {
  start_ready(2, {.state_dir = state_dir()});
  const auto old = state_dir() + "-old";
  std::filesystem::remove_all(old);
  std::filesystem::copy(state_dir(), old);
  for (int i = 0; i < 3; ++i) {
    kill(scheduler);
    start({.state_dir = state_dir()});
    for (auto& who : peers)
      join_again(who);
  }
  EXPECT_EQ(status().term, 4U);
  const auto experts = status().experts;
  const auto orders = peers[1].log->orders.size();
  kill(scheduler);
  std::filesystem::remove_all(state_dir());
  std::filesystem::rename(old, state_dir()); // a backup has been restored
  start({.state_dir = state_dir()});
  EXPECT_EQ(status().term, 2U);
  join_again(peers[0]);
  ASSERT_FALSE(peers[0].log->welcome);
  EXPECT_EQ(text_of(peers[0].log->welcome.error()),
            "'attention-1' has seen term 4, this scheduler has 2 and takes a newer one first");
  EXPECT_EQ(code_of(peers[0].log->welcome.error()), ec::not_ready) << "it asks again";
  EXPECT_EQ(newest_leased_term(state_dir()), 5U) << "durable before anybody hears of it";
  for (auto& who : peers) {
    join_again(who);
    ASSERT_TRUE(who.log->welcome);
    EXPECT_EQ(who.log->welcome->term, 5U);
  }
  EXPECT_TRUE(status().ready);
  EXPECT_EQ(peers[0].log->term(), 5U);
  for (std::size_t layer = 0; layer < 3; ++layer)
    EXPECT_EQ(status().experts.layers[layer]->experts, experts.layers[layer]->experts) << "nothing moves";
  EXPECT_EQ(peers[1].log->orders.size(), orders);
}

TEST_F(storage_test, a_scheduler_whose_lease_is_lost_ends_and_tells_why) {
  start_ready(2, {.state_dir = state_dir()});
  for (std::uint64_t id = 1; id <= 4; ++id)
    admit(request_of(id));
  auto& waiting = admit(request_of(5));
  caf::error reason;
  root(system.spawn([&](caf::event_based_actor* self) -> caf::behavior {
    self->monitor(scheduler);
    self->set_down_handler([&](const caf::down_msg& down) { reason = down.reason; });
    return {[](int) {}};
  }));
  const auto successor = take_over();
  ASSERT_TRUE(successor);
  EXPECT_EQ(successor->term(), 2U);
  pass(defaults::scheduler_lease_interval + 1s);
  EXPECT_EQ(code_of(reason), ec::stale_term);
  EXPECT_NE(text_of(reason).find("'standby', process "), std::string::npos) << text_of(reason);
  EXPECT_EQ(metrics->count("lease-lost"), 1U);
  EXPECT_EQ(waiting.code(), ec::shutting_down) << "the gateway asks the successor";
}

TEST_F(storage_test, a_scheduler_that_wakes_up_publishes_nothing_before_it_has_looked_at_its_lease) {
  start_ready(3, {.state_dir = state_dir()});
  const auto num_views = peers[0].log->views.size();
  const auto successor = take_over();
  coordinator.advance_time(5s); // nothing runs meanwhile, and a worker dies
  die(peers[3]);
  pass(1s);
  EXPECT_EQ(peers[0].log->views.size(), num_views);
  EXPECT_EQ(metrics->count("lease-lost"), 1U);
}

TEST_F(storage_test, a_scheduler_that_was_stopped_without_a_successor_goes_on) {
  start_ready(2, {.state_dir = state_dir()});
  coordinator.advance_time(5s);
  run();
  pass(1s);
  EXPECT_EQ(metrics->count("lease-lost"), 0U);
  EXPECT_EQ(status().term, 1U);
  join(expert_hello(13));
  EXPECT_EQ(peers[0].log->views.back().workers.size(), 4U);
}

TEST_F(storage_test, the_placement_of_a_successor_is_not_overwritten) {
  start_ready(2, {.state_dir = state_dir()});
  const auto successor = take_over();
  auto newer = *cluster_store{state_dir()}.load().cluster;
  newer.experts.term = 2;
  cluster_store{state_dir()}.save(newer);
  join(expert_hello(13)); // before the next renewal
  EXPECT_EQ(*cluster_store{state_dir()}.load().cluster, newer);
}

} // namespace
} // namespace troupe
