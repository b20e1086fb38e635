// What the scheduler asks of lease keeper and writer, and what it learns from their answers.
#include <gtest/gtest.h>

#include "actors/protocol/error.hpp"
#include "actors/scheduler/state_directory.hpp"
#include "tests/unit/actors/cluster_fakes.hpp"
#include "tests/unit/actors/scheduler/scheduler_stand_in.hpp"

namespace troupe {
namespace {

/// Answers of lease keeper and writer.
struct disk_log {
  caf::error error;
  std::vector<std::uint64_t> raised_above;
  std::size_t num_renewals = 0;
  std::vector<stored_cluster_ptr> saves;
};

lease_keeper_actor::behavior_type fake_keeper(lease_keeper_actor::pointer, disk_log* log) {
  return {
      [log](caf::tick_atom) -> caf::result<void> {
        ++log->num_renewals;
        if (log->error)
          return log->error;
        return caf::unit;
      },
      [log](caf::update_atom, std::uint64_t above) -> caf::result<std::uint64_t> {
        log->raised_above.push_back(above);
        if (log->error)
          return log->error;
        return above + 1;
      },
  };
}

cluster_store_writer_actor::behavior_type fake_writer(cluster_store_writer_actor::pointer, disk_log* log) {
  return {
      [log](caf::put_atom, const stored_cluster_ptr& cluster) -> caf::result<void> {
        log->saves.push_back(cluster);
        if (log->error)
          return log->error;
        return caf::unit;
      },
  };
}

class state_directory_test : public stand_in_system {
 protected:
  void SetUp() override {
    stand_in_system::SetUp();
    scheduler_storage storage;
    storage.keeper = root(system.spawn(fake_keeper, &log));
    storage.writer = root(system.spawn(fake_writer, &log));
    start(storage);
  }

  void TearDown() override {
    disk = {};
    stand_in_system::TearDown();
  }

  void start(const scheduler_storage& storage) {
    act([this, &storage](scheduler_interface::pointer self) {
      disk = {self,
              storage,
              terms,
              {.report =
                   [this](const std::optional<operator_event>& event) {
                     if (event)
                       events.emplace_back(event->name);
                   },
               .raise_term =
                   [this](std::uint64_t above, const std::string& name) {
                     terms.raise(above, name, {});
                     raised_by.push_back(name);
                   },
               .confirmed = [this] { ++num_confirmed; },
               .lost = [this](const caf::error& error) { losses.push_back(code_of(error)); },
               .snapshot = [this] { return snapshot; }}};
    });
  }

  void renew() {
    advance(defaults::scheduler_lease_interval);
    act([this] { disk.renew_lease(); });
  }

  void save() {
    act([this] { disk.save(); });
  }

  void check() {
    act([this] { disk.check_disk(); });
  }

  disk_log log;
  term_ledger terms{3};
  stored_cluster snapshot;
  state_directory disk;
  std::vector<std::string> events;
  std::vector<std::string> raised_by;
  std::vector<ec> losses;
  std::size_t num_confirmed = 0;
};

TEST_F(state_directory_test, a_newer_term_is_durable_before_the_worker_hears_of_it) {
  auto ahead = expert_hello(11);
  ahead.term = 7;
  act([&] {
    EXPECT_EQ(code_of(disk.take_newer_term(ahead)), ec::not_ready) << "it asks again";
    EXPECT_EQ(code_of(disk.take_newer_term(ahead)), ec::not_ready);
    EXPECT_EQ(terms.term(), 3U);
  });
  EXPECT_EQ(log.raised_above, std::vector<std::uint64_t>{7}) << "once";
  EXPECT_EQ(terms.term(), 8U);
  EXPECT_EQ(raised_by, std::vector<std::string>{"expert-11"});
}

TEST_F(state_directory_test, a_lease_that_is_renewed_is_not_in_doubt) {
  terms.doubt(coordinator.clock().now());
  renew();
  EXPECT_EQ(log.num_renewals, 1U);
  EXPECT_EQ(num_confirmed, 1U);
  EXPECT_FALSE(terms.is_doubtful(coordinator.clock().now()));
  renew();
  EXPECT_EQ(log.num_renewals, 2U);
  EXPECT_EQ(num_confirmed, 1U);
}

TEST_F(state_directory_test, a_failure_is_told_once_and_a_successor_ends_the_scheduler) {
  log.error = make_error(ec::engine_failed, "no space");
  renew();
  renew();
  EXPECT_EQ(events, std::vector<std::string>{"lease-not-renewed"});
  log.error = make_error(ec::stale_term, "scheduler-1 has taken over");
  renew();
  EXPECT_EQ(events, (std::vector<std::string>{"lease-not-renewed", "lease-lost"}));
  EXPECT_EQ(losses, std::vector<ec>{ec::stale_term});
}

TEST_F(state_directory_test, what_changes_during_a_write_is_written_behind_it) {
  act([this] {
    for (const auto* state : {"one", "two"}) {
      snapshot.identity.fingerprint = state;
      disk.save();
    }
    snapshot.identity.fingerprint = "three"; // since the last call
  });
  ASSERT_EQ(log.saves.size(), 2U);
  EXPECT_EQ(log.saves[0]->identity.fingerprint, "one");
  EXPECT_EQ(log.saves[1]->identity.fingerprint, "three");
}

TEST_F(state_directory_test, a_write_that_failed_is_made_up_for) {
  log.error = make_error(ec::engine_failed, "no space");
  save();
  ASSERT_EQ(log.saves.size(), 1U);
  EXPECT_EQ(events.size(), 1U);
  log.error = {};
  check();
  EXPECT_EQ(log.saves.size(), 1U) << "not at once";
  advance(1h);
  check();
  EXPECT_EQ(log.saves.size(), 2U);
}

TEST_F(state_directory_test, without_a_state_directory_nothing_is_asked) {
  start({});
  EXPECT_FALSE(disk.has_lease());
  save();
  renew();
  EXPECT_TRUE(log.saves.empty());
  EXPECT_EQ(log.num_renewals, 0U);
}

} // namespace
} // namespace troupe
