// More requests than memory: all of them get their undisturbed output, one after the other.
#include <algorithm>
#include <string>

#include "tests/unit/actors/whole_cluster.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Two workers of 96 tokens each, room for many more sequences than that, and a scheduler that expects short
/// answers.
constexpr cluster_memory too_little{.num_blocks = 24, .max_num_seqs = 16, .admission_quantile = 0.01};

/// Some 70 tokens each at the most, 50 on average: sixteen times what the workers hold.
constexpr std::size_t num_requests = 64;

void finish_served(whole_cluster& cluster) {
  for (std::size_t i = 0; i < 3000 && !cluster.all_over(); ++i)
    cluster.pass(100ms);
  EXPECT_TRUE(cluster.all_over()) << "a request has not ended";
  cluster.expect_undisturbed_output();
  cluster.wait_until_whole();
  cluster.expect_nothing_left();
}

TEST(cluster_memory_test, property_sixteen_times_more_than_fits_is_served_in_the_end) {
  std::uint64_t num_preemptions = 0;
  for (std::uint32_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed, whole_cluster::num_hosts, too_little};
    for (std::size_t i = 0; i < num_requests; ++i)
      cluster.open_session();
    finish_served(cluster);
    EXPECT_EQ(cluster.num_replays(), 0U) << "a worker that has no memory left serves on";
    EXPECT_LE(cluster.num_preemptions(), 4 * num_requests) << "most is computed once or twice";
    num_preemptions += cluster.num_preemptions();
  }
  EXPECT_GT(num_preemptions, 20U) << "memory was not short";
}

TEST(cluster_memory_test, property_so_it_is_while_workers_die) {
  for (std::uint32_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed, whole_cluster::num_hosts, too_little};
    for (std::size_t i = 0; i < num_requests; ++i)
      cluster.open_session(cluster.below(5) == 0 ? 1 + cluster.below(20) : 0);
    for (std::size_t i = 0; i < 4; ++i)
      cluster.later(cluster.up_to(4s), [&cluster] {
        cluster.pass_some_messages();
        cluster.kill_worker(cluster.below(2));
      });
    finish_served(cluster);
  }
}

std::size_t num_refused_orders(const whole_cluster& cluster) {
  return static_cast<std::size_t>(
      std::count_if(cluster.events().begin(), cluster.events().end(), [](const auto& told) {
        return told.first == "host-order-failed" && told.second.find("may hold") != std::string::npos;
      }));
}

std::size_t num_told(const whole_cluster& cluster, const std::string& event) {
  return cluster.named_by(event).size();
}

// The two remaining hosts can hold 20 of 22 experts.
TEST(cluster_memory_test, requests_wait_for_experts_that_the_survivors_have_no_room_for) {
  whole_cluster cluster{2, whole_cluster::num_hosts, {.host_experts = 10}};
  cluster.stop_host(2);
  cluster.pass(1s);
  EXPECT_FALSE(cluster.serves());
  cluster.open_session();
  cluster.pass(30s);
  EXPECT_FALSE(cluster.all_over());
  EXPECT_EQ(num_told(cluster, "experts-without-room"), 1U);
  for (const auto& name : {"expert-0", "expert-1"})
    EXPECT_TRUE(cluster.has_member(name)) << "it lives on";
  cluster.bring_back_host(2);
  finish_served(cluster);
  EXPECT_EQ(num_told(cluster, "experts-have-room"), 1U);
  EXPECT_EQ(num_refused_orders(cluster), 0U);
}

TEST(cluster_memory_test, property_no_host_is_ordered_more_than_it_can_hold_whoever_dies_and_whatever_moves) {
  for (std::uint32_t seed = 1; seed <= 20 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    // Room for 24 or 27 of 22 experts, with one replica or two: a death leaves too little.
    whole_cluster cluster{seed, whole_cluster::num_hosts, {.host_experts = 8 + seed % 2}};
    for (std::size_t i = 0; i < 12; ++i)
      cluster.open_session();
    for (std::size_t i = 0; i < 5; ++i)
      cluster.later(cluster.up_to(4s), [&cluster] {
        cluster.pass_some_messages();
        cluster.kill_anybody();
      });
    cluster.later(cluster.up_to(2s), [&cluster] {
      if (cluster.has_scheduler())
        cluster.move_everything();
    });
    finish_served(cluster);
    EXPECT_EQ(num_refused_orders(cluster), 0U);
  }
}

TEST(cluster_memory_test, what_is_set_aside_whole_is_hardly_ever_preempted) {
  whole_cluster cluster{
      3, whole_cluster::num_hosts, {.num_blocks = 32, .max_num_seqs = 16, .admission_quantile = 1}};
  for (std::size_t i = 0; i < 20; ++i)
    cluster.open_session();
  finish_served(cluster);
  EXPECT_LE(cluster.num_preemptions(), 2U) << "of blocks that are not full";
}

} // namespace
} // namespace troupe
