// An operator's trace command reaches all members, including later ones, and holds for the next scheduler.
#include <filesystem>

#include "actors/protocol/trace_control_actor.hpp"
#include "actors/scheduler/cluster_store.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

class scheduler_tracing_test : public scheduler_fixture {
 protected:
  caf::expected<trace_receipt> tell(std::uint32_t share_ppm) {
    return ask<trace_receipt>(caf::actor_cast<trace_control_actor>(scheduler), trace_command{share_ppm});
  }
};

TEST_F(scheduler_tracing_test, tells_all_members_and_answers_with_what_they_say) {
  start_ready(2);
  peers.back().log->trace_error = "no folder";
  const auto receipt = tell(10'000);
  ASSERT_TRUE(receipt);
  ASSERT_EQ(receipt->processes.size(), 4U); // the scheduler's own, too
  std::size_t refused = 0;
  for (const auto& process : receipt->processes)
    refused += process.error == "no folder" ? 1 : 0;
  EXPECT_EQ(refused, 1U);
  for (const auto& one : peers)
    EXPECT_EQ(one.log->traced, std::vector<trace_command>{{10'000}});
}

TEST_F(scheduler_tracing_test, tells_those_that_join_later) {
  start_ready(1);
  EXPECT_TRUE(join(expert_hello(18)).log->traced.empty());
  ASSERT_TRUE(tell(10'000));
  EXPECT_EQ(join(expert_hello(19)).log->traced, std::vector<trace_command>{{10'000}});
  ASSERT_TRUE(tell(0));
  EXPECT_EQ(join(expert_hello(20)).log->traced, std::vector<trace_command>{{0}});
}

/// What the next scheduler finds on the disk.
class tracing_kept_test : public scheduler_tracing_test {
 protected:
  void SetUp() override {
    scheduler_tracing_test::SetUp();
    directory = ::testing::TempDir() + "troupe-tracing-"
                + ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(directory);
    start_ready(2, {.state_dir = directory});
    EXPECT_TRUE(tell(10'000));
    settle();
  }

  void TearDown() override {
    scheduler_tracing_test::TearDown();
    std::filesystem::remove_all(directory);
  }

  void restart() {
    kill(scheduler);
    start({.state_dir = directory});
    for (auto& one : peers)
      one.log->traced.clear();
  }

  std::string directory;
};

TEST_F(tracing_kept_test, holds_for_the_next_scheduler_once_somebody_is_back) {
  restart();
  EXPECT_TRUE(join(expert_hello(18)).log->traced.empty()) << "nobody says yet that this is the same cluster";
  join_again(peers[0]);
  EXPECT_EQ(metrics->count("tracing"), 1U);
  join_again(peers[1]);
  for (const auto* one : {&peers[0], &peers[1], &peers[3]})
    EXPECT_EQ(one->log->traced, std::vector<trace_command>{{10'000}});
}

TEST_F(tracing_kept_test, a_stop_holds_as_well) {
  EXPECT_TRUE(tell(0));
  settle();
  restart();
  join_again(peers[0]);
  EXPECT_EQ(peers[0].log->traced, std::vector<trace_command>{{0}});
}

TEST_F(tracing_kept_test, ends_with_its_cluster) {
  restart();
  peers.clear();
  join(attention_hello(2));
  join(expert_hello(18));
  pass(defaults::recovery_limit);
  EXPECT_TRUE(peers[0].log->is_ready());
  auto late = expert_hello(19);
  late.term = 1; // as one of the cluster before
  EXPECT_TRUE(join(std::move(late)).log->traced.empty());
  EXPECT_FALSE(cluster_store{directory}.load().cluster->traced_ppm);
}

} // namespace
} // namespace troupe
