// Leases on a state directory: of one process, of several, and of processes that die or stall.
#include "actors/scheduler/scheduler_lease.hpp"

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/protocol/defaults.hpp"
#include "actors/scheduler/succession.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class scheduler_lease_test : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    directory = ::testing::TempDir() + "troupe-lease-" + info->name();
    std::filesystem::remove_all(directory);
    std::filesystem::create_directories(directory);
  }

  void TearDown() override { std::filesystem::remove_all(directory); }

  std::set<std::string> files() const {
    std::set<std::string> result;
    for (const auto& entry : std::filesystem::directory_iterator{directory})
      result.insert(entry.path().filename().string());
    return result;
  }

  static std::uint64_t nothing() { return 0; }

  std::string directory;
  lease_watch::time_point now{1h}; ///< of the watching standbys
};

TEST_F(scheduler_lease_test, the_first_takes_term_1_and_nobody_else_while_it_lives) {
  lease_watch first{directory, "scheduler-0"};
  lease_watch second{directory, "scheduler-1"};
  const auto lease = first.look(now, nothing);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->term(), 1U);
  EXPECT_FALSE(second.look(now, nothing));
  ASSERT_TRUE(second.holder());
  EXPECT_EQ(second.holder()->term, 1U);
  EXPECT_EQ(second.holder()->name, "scheduler-0");
  EXPECT_EQ(second.holder()->pid, getpid());
  EXPECT_FALSE(second.is_alive()) << "not seen yet";
  EXPECT_FALSE(lease->renew());
  EXPECT_FALSE(second.look(now + 1s, nothing));
  EXPECT_TRUE(second.is_alive());
}

TEST_F(scheduler_lease_test, the_next_term_is_taken_at_once_when_the_holder_has_ended) {
  lease_watch first{directory, "scheduler-0"};
  lease_watch second{directory, "scheduler-1"};
  auto lease = first.look(now, nothing);
  EXPECT_FALSE(second.look(now, nothing));
  lease.reset();
  const auto next = second.look(now, nothing);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->term(), 2U);
  EXPECT_EQ(files(), (std::set<std::string>{"lease.2"})) << "what was is removed";
}

TEST_F(scheduler_lease_test, a_holder_that_stands_still_is_overtaken_and_learns_it) {
  lease_watch first{directory, "scheduler-0"};
  lease_watch second{directory, "scheduler-1"};
  const auto lease = first.look(now, nothing);
  EXPECT_FALSE(second.look(now, nothing));
  now += defaults::scheduler_lease - 1ms;
  EXPECT_FALSE(second.look(now, nothing));
  EXPECT_FALSE(lease->renew()) << "just in time";
  EXPECT_FALSE(second.look(now, nothing));
  now += defaults::scheduler_lease - 1ms;
  EXPECT_FALSE(second.look(now, nothing));
  now += 1ms;
  const auto next = second.look(now, nothing);
  ASSERT_TRUE(next);
  EXPECT_EQ(next->term(), 2U);
  const auto other = lease->renew(); // it wakes up
  ASSERT_TRUE(other);
  EXPECT_EQ(other->term, 2U);
  EXPECT_EQ(other->name, "scheduler-1");
  EXPECT_TRUE(lease->raise(9)) << "nor does it get any other term";
  EXPECT_EQ(newest_leased_term(directory), 2U);
  EXPECT_FALSE(next->renew());
}

TEST_F(scheduler_lease_test, a_term_is_above_all_that_is_known_and_can_be_raised) {
  lease_watch first{directory, "scheduler-0"};
  const auto lease = first.look(now, [] { return std::uint64_t{41}; });
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->term(), 42U);
  EXPECT_FALSE(lease->raise(41));
  EXPECT_EQ(lease->term(), 42U) << "that is above it already";
  EXPECT_FALSE(lease->raise(99));
  EXPECT_EQ(lease->term(), 100U);
  EXPECT_EQ(files(), (std::set<std::string>{"lease.100"}));
  EXPECT_FALSE(lease->renew());
  lease_watch second{directory, "scheduler-1"};
  EXPECT_FALSE(second.look(now, nothing)) << "the new term is locked as the old one was";
}

TEST_F(scheduler_lease_test, of_many_who_ask_at_once_each_term_has_one) {
  constexpr std::size_t num_threads = 8;
  std::uint64_t last = 0;
  for (int round = 0; round < 50; ++round) {
    std::atomic<std::size_t> num_ready{0};
    std::vector<std::unique_ptr<scheduler_lease>> leases(num_threads);
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < num_threads; ++i)
      threads.emplace_back([&, i] {
        lease_watch watch{directory, "scheduler-" + std::to_string(i)};
        ++num_ready;
        while (num_ready < num_threads)
          std::this_thread::yield();
        leases[i] = watch.look(now, nothing);
      });
    for (auto& thread : threads)
      thread.join();
    std::set<std::uint64_t> terms;
    std::size_t num_active = 0;
    for (const auto& lease : leases)
      if (lease) {
        EXPECT_TRUE(terms.insert(lease->term()).second) << "a term was taken twice";
        EXPECT_GT(lease->term(), last);
        num_active += lease->renew() ? 0 : 1;
      }
    EXPECT_EQ(num_active, 1U) << "round " << round;
    last = newest_leased_term(directory);
  }
}

TEST_F(scheduler_lease_test, a_process_that_is_killed_leaves_its_lease_at_once) {
  int told[2];
  ASSERT_EQ(pipe(told), 0);
  const auto child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    lease_watch watch{directory, "scheduler-0"};
    const auto lease = watch.look(lease_watch::time_point{1h}, nothing);
    const char word = lease ? 'y' : 'n';
    if (write(told[1], &word, 1) == 1)
      pause();
    _exit(1);
  }
  char word = 0;
  ASSERT_EQ(read(told[0], &word, 1), 1);
  EXPECT_EQ(word, 'y');
  lease_watch watch{directory, "scheduler-1"};
  EXPECT_FALSE(watch.look(now, nothing));
  EXPECT_EQ(watch.holder()->pid, child);
  ASSERT_EQ(kill(child, SIGKILL), 0);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  const auto lease = watch.look(now, nothing);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->term(), 2U);
  close(told[0]);
  close(told[1]);
}

TEST_F(scheduler_lease_test, a_lock_is_not_trusted_across_machines) {
  // A network file system may be mounted without locks: another machine's file looks free, and is touched.
  std::ofstream{directory + "/lease.7"}
      << "troupe-lease 1\nholder \"scheduler-0\" 12 \"elsewhere\" \"another-boot\"\n";
  lease_watch watch{directory, "scheduler-1"};
  EXPECT_FALSE(watch.look(now, nothing));
  EXPECT_EQ(described(*watch.holder()), "'scheduler-0', process 12 on elsewhere");
  EXPECT_FALSE(watch.look(now + defaults::scheduler_lease - 1ms, nothing));
  const auto lease = watch.look(now + defaults::scheduler_lease, nothing);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->term(), 8U);
}

TEST_F(scheduler_lease_test, a_damaged_lease_still_says_its_term) {
  std::ofstream{directory + "/lease.7"} << "troupe-le";
  lease_watch watch{directory, "scheduler-1"};
  EXPECT_FALSE(watch.look(now, nothing));
  EXPECT_EQ(described(*watch.holder()), "another scheduler");
  const auto lease = watch.look(now + defaults::scheduler_lease, nothing);
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->term(), 8U);
}

TEST_F(scheduler_lease_test, what_the_dead_have_begun_is_removed) {
  std::ofstream{directory + "/lease.new.abc123"} << "troupe-lease 1\n";
  std::ofstream{directory + "/lease.other"} << "a file of somebody else";
  lease_watch watch{directory, "scheduler-0"};
  const auto lease = watch.look(now, nothing);
  ASSERT_TRUE(lease);
  EXPECT_EQ(files(), (std::set<std::string>{"lease.1", "lease.other"}));
}

TEST_F(scheduler_lease_test, a_directory_that_is_gone_is_an_error_that_names_it) {
  std::filesystem::remove_all(directory);
  lease_watch watch{directory, "scheduler-0"};
  try {
    watch.look(now, nothing);
    FAIL() << "took a lease of nothing";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string{error.what()}.find(directory), std::string::npos) << error.what();
  }
}

TEST_F(scheduler_lease_test, who_is_no_standby_is_told_who_is_active) {
  lease_watch watch{directory, "scheduler-0"};
  const auto lease = watch.look(now, nothing);
  ASSERT_TRUE(lease);
  std::atomic<bool> is_over{false};
  std::thread renewing{[&] {
    while (!is_over) {
      EXPECT_FALSE(lease->renew());
      std::this_thread::yield();
    }
  }};
  try {
    succeed_in_time({.state_dir = directory, .name = "scheduler-1"});
    ADD_FAILURE() << "two are active";
  } catch (const std::runtime_error& error) {
    lease_watch other{directory, "scheduler-2"};
    EXPECT_FALSE(other.look(now, nothing));
    EXPECT_EQ(std::string{error.what()},
              "the state directory '" + directory + "' is in use by " + described(*other.holder())
                  + ", which is active in term 1: stop it, or start this one with --standby");
  }
  is_over = true;
  renewing.join();
}

TEST_F(scheduler_lease_test, a_standby_takes_over_what_is_stored_or_gives_up_when_told) {
  const cluster_store store{directory};
  stored_cluster cluster;
  cluster.identity.fingerprint = "model-a";
  cluster.experts.term = 5;
  cluster.workers = {{{1}, worker_role::attention, "attention-0", ""}};
  store.save(cluster);
  lease_watch watch{directory, "scheduler-0"};
  auto lease = watch.look(now, [&store] { return store.load().term; });
  ASSERT_TRUE(lease);
  EXPECT_EQ(lease->term(), 6U);
  std::size_t num_asked = 0;
  const candidate impatient{.state_dir = directory,
                            .name = "scheduler-1",
                            .is_standby = true,
                            .gives_up = [&num_asked] { return ++num_asked == 3; }};
  EXPECT_FALSE(succeed_in_time(impatient));
  EXPECT_EQ(num_asked, 3U);
  lease.reset();
  const auto next = succeed_in_time({.state_dir = directory, .name = "scheduler-1", .is_standby = true});
  ASSERT_TRUE(next);
  EXPECT_EQ(next->lease->term(), 7U);
  EXPECT_EQ(*next->cluster, cluster);
  EXPECT_EQ(store.load().term, 7U);
}

} // namespace
} // namespace troupe
