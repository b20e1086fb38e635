// Experts change their hosts while requests run, and participants die at every step: nothing is lost, no
// answer differs, and the cluster recovers.
#include <string>

#include "tests/unit/actors/whole_cluster.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

void open_some_sessions(whole_cluster& cluster) {
  for (std::size_t i = 0; i < 6; ++i)
    cluster.open_session();
  cluster.pass(50ms);
}

void finish_moved(whole_cluster& cluster) {
  for (std::size_t i = 0; i < 1000 && !cluster.all_over(); ++i)
    cluster.pass(100ms);
  EXPECT_TRUE(cluster.all_over()) << "a request has not ended";
  cluster.expect_undisturbed_output();
  cluster.wait_until_whole();
  cluster.expect_nothing_left();
}

/// Waits until no change is under way.
void wait_for_change(whole_cluster& cluster) {
  for (std::size_t i = 0; i < 600; ++i) {
    const auto changes = cluster.rebalancer_says().changes;
    if (changes.empty() || changes.front().left == 0)
      return;
    cluster.pass(100ms);
  }
  ADD_FAILURE() << "a change does not end";
}

TEST(cluster_moves_test, every_expert_moves_and_no_request_notices) {
  for (std::uint32_t seed = 1; seed <= 6 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed};
    open_some_sessions(cluster);
    const auto before = cluster.scheduler_says().experts;
    ASSERT_TRUE(cluster.move_everything());
    cluster.pass(10ms);
    wait_for_change(cluster);
    const auto changes = cluster.rebalancer_says().changes;
    ASSERT_EQ(changes.size(), 1U);
    EXPECT_EQ(changes.front().given_up, 0U);
    EXPECT_GT(changes.front().done, 0U);
    const auto after = cluster.scheduler_says().experts;
    for (std::uint32_t layer = 0; layer < before.layers.size(); ++layer)
      for (std::uint32_t index = 0; index < before.layers[layer]->experts.size(); ++index)
        EXPECT_NE(before.layers[layer]->experts[index], after.layers[layer]->experts[index]);
    finish_moved(cluster);
    EXPECT_EQ(cluster.num_replays(), 0U);
    EXPECT_EQ(cluster.num_retries(), 0U) << "no batch has gone to a host that had let go";
  }
}

/// The party that dies in the middle of a change.
enum class party { host, worker, scheduler };

/// @param messages  handled between the command and the death
void kill_in_the_middle(party who, std::size_t messages, std::uint32_t seed) {
  SCOPED_TRACE("party " + std::to_string(static_cast<int>(who)) + ", after " + std::to_string(messages)
               + " messages, seed " + std::to_string(seed));
  whole_cluster cluster{seed};
  open_some_sessions(cluster);
  ASSERT_TRUE(cluster.move_everything());
  auto left = messages;
  cluster.run_until([&left] { return left-- == 0; }, 10s);
  switch (who) {
  case party::host:
    cluster.kill_host(seed % whole_cluster::num_hosts);
    break;
  case party::worker:
    cluster.kill_worker(seed % whole_cluster::num_workers);
    break;
  case party::scheduler:
    cluster.kill_scheduler();
    break;
  }
  cluster.wait_until_whole();
  wait_for_change(cluster);
  finish_moved(cluster);
  // An interrupted move can be ordered again.
  if (cluster.move_everything()) {
    cluster.pass(10ms);
    wait_for_change(cluster);
    EXPECT_GT(cluster.rebalancer_says().changes.front().done, 0U);
  }
}

class party_test : public testing::TestWithParam<party> {};

TEST_P(party_test, may_die_at_any_step_of_a_change) {
  // A move of everything takes some thousand messages, including those of requests; those of the first moves
  // are covered densely.
  std::uint32_t seed = 0;
  for (std::size_t messages = 0; messages < 120 && !HasFailure(); messages += 3)
    kill_in_the_middle(GetParam(), messages, ++seed);
  for (std::size_t messages = 120; messages < 3000 && !HasFailure(); messages += 89)
    kill_in_the_middle(GetParam(), messages, ++seed);
}

INSTANTIATE_TEST_SUITE_P(any, party_test, testing::Values(party::host, party::worker, party::scheduler),
                         [](const auto& one) {
                           return one.param == party::host     ? std::string{"host"}
                                  : one.param == party::worker ? std::string{"worker"}
                                                               : std::string{"scheduler"};
                         });

} // namespace
} // namespace troupe
