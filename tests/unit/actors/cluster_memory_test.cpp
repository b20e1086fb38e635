// More requests than memory: all of them get what they get undisturbed, one after the other.
#include "tests/unit/actors/whole_cluster.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Two workers of 96 tokens each, room for many more sequences than that, and a scheduler that takes every
/// answer for a short one.
constexpr cluster_memory too_little{.num_blocks = 24, .max_num_seqs = 16, .admission_quantile = 0.01};

/// Some 70 tokens each at the most, 50 on average: sixteen times what the workers hold.
constexpr size_t num_requests = 64;

void finish_served(whole_cluster& cluster) {
  for (size_t i = 0; i < 3000 && !cluster.all_over(); ++i)
    cluster.pass(100ms);
  EXPECT_TRUE(cluster.all_over()) << "a request has not ended";
  cluster.expect_undisturbed_output();
  cluster.wait_until_whole();
  cluster.expect_nothing_left();
}

TEST(cluster_memory_test, property_sixteen_times_more_than_fits_is_served_in_the_end) {
  uint64_t num_preemptions = 0;
  for (uint32_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed, whole_cluster::num_hosts, too_little};
    for (size_t i = 0; i < num_requests; ++i)
      cluster.open_session();
    finish_served(cluster);
    EXPECT_EQ(cluster.num_replays(), 0U) << "a worker that has no memory left serves on";
    EXPECT_LE(cluster.num_preemptions(), 4 * num_requests) << "most is computed once or twice";
    num_preemptions += cluster.num_preemptions();
  }
  EXPECT_GT(num_preemptions, 20U) << "memory was not short";
}

TEST(cluster_memory_test, property_so_it_is_while_workers_die) {
  for (uint32_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed, whole_cluster::num_hosts, too_little};
    for (size_t i = 0; i < num_requests; ++i)
      cluster.open_session(cluster.below(5) == 0 ? 1 + cluster.below(20) : 0);
    for (size_t i = 0; i < 4; ++i)
      cluster.later(cluster.up_to(4s), [&cluster] {
        cluster.pass_some_messages();
        cluster.kill_worker(cluster.below(2));
      });
    finish_served(cluster);
  }
}

TEST(cluster_memory_test, what_is_set_aside_whole_is_hardly_ever_preempted) {
  whole_cluster cluster{
      3, whole_cluster::num_hosts, {.num_blocks = 32, .max_num_seqs = 16, .admission_quantile = 1}};
  for (size_t i = 0; i < 20; ++i)
    cluster.open_session();
  finish_served(cluster);
  EXPECT_LE(cluster.num_preemptions(), 2U) << "of blocks that are not full";
}

} // namespace
} // namespace troupe
