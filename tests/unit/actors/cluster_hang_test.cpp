// The whole cluster when engines hang while their actors answer: every request gets its undisturbed output.
#include <string>

#include "tests/unit/actors/whole_cluster.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

using names = std::vector<std::string>;

/// The most time that a hung engine may cost, beside the work itself: noticing, reporting and restarting
/// elsewhere.
constexpr auto found_within = defaults::engine_stall + defaults::lease;

void open_sessions(whole_cluster& cluster, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    cluster.open_session();
  cluster.pass(150ms);
  ASSERT_FALSE(cluster.all_over());
}

void finish(whole_cluster& cluster) {
  for (std::size_t i = 0; i < 300 && !cluster.all_over(); ++i)
    cluster.pass(100ms);
  EXPECT_TRUE(cluster.all_over()) << "a request has not ended";
  cluster.expect_undisturbed_output();
}

TEST(cluster_hang_test, experts_without_a_replica_are_hosted_elsewhere_when_their_hosts_engine_hangs) {
  for (const std::uint32_t seed : {2U, 4U, 6U}) { // one replica
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed};
    open_sessions(cluster, 6);
    cluster.hang_host(1);
    cluster.pass(8s);
    EXPECT_FALSE(cluster.all_over()) << "nobody else has its experts";
    EXPECT_TRUE(cluster.has_member("expert-1")) << "it may be slow";
    cluster.pass(found_within - 8s);
    EXPECT_EQ(cluster.named_by("worker-hung"), names{"expert-1"});
    EXPECT_FALSE(cluster.has_member("expert-1"));
    EXPECT_TRUE(cluster.serves());
    finish(cluster);
    cluster.open_session();
    finish(cluster);
    EXPECT_FALSE(cluster.has_member("expert-1")) << "its engine is still in that step";
    cluster.resume_host(1);
    cluster.wait_until_whole();
    EXPECT_TRUE(cluster.has_member("expert-1"));
    cluster.expect_nothing_left();
    EXPECT_EQ(cluster.named_by("worker-hung"), names{"expert-1"});
  }
}

TEST(cluster_hang_test, a_host_with_replicas_that_hangs_is_found_while_they_serve) {
  whole_cluster cluster{1}; // two replicas
  open_sessions(cluster, 6);
  cluster.hang_host(0);
  cluster.pass(found_within);
  EXPECT_EQ(cluster.named_by("worker-hung"), names{"expert-0"});
  finish(cluster);
  cluster.resume_host(0);
  cluster.wait_until_whole();
  cluster.expect_nothing_left();
}

TEST(cluster_hang_test, sequences_of_an_attention_worker_whose_engine_hangs_go_on_elsewhere) {
  for (const std::uint32_t seed : {1U, 2U, 3U, 4U}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed};
    open_sessions(cluster, 6);
    cluster.hang_worker(0);
    cluster.pass(found_within);
    EXPECT_EQ(cluster.named_by("worker-hung"), names{"attention-0"});
    EXPECT_TRUE(cluster.serves());
    EXPECT_GT(cluster.num_replays(), 0U);
    finish(cluster);
    EXPECT_FALSE(cluster.has_member("attention-0"));
    cluster.resume_worker(0);
    cluster.wait_until_whole();
    EXPECT_TRUE(cluster.has_member("attention-0"));
    cluster.expect_nothing_left();
  }
}

TEST(cluster_hang_test,
     without_an_engine_that_computes_the_cluster_is_not_ready_and_what_waits_goes_on_after) {
  whole_cluster cluster{5};
  open_sessions(cluster, 6);
  cluster.hang_worker(0);
  cluster.hang_worker(1);
  cluster.pass(found_within);
  auto found = cluster.named_by("worker-hung");
  std::sort(found.begin(), found.end());
  EXPECT_EQ(found, (names{"attention-0", "attention-1"}));
  EXPECT_FALSE(cluster.serves());
  cluster.pass(30s);
  EXPECT_FALSE(cluster.all_over()) << "they wait for a place until their deadline";
  cluster.resume_worker(1);
  cluster.pass(defaults::reconnect_max + 1s);
  EXPECT_TRUE(cluster.serves());
  finish(cluster);
  cluster.resume_worker(0);
  cluster.wait_until_whole();
  cluster.expect_nothing_left();
}

TEST(cluster_hang_test, requests_end_with_a_clear_error_when_no_engine_comes_back) {
  whole_cluster cluster{5};
  open_sessions(cluster, 6);
  cluster.hang_worker(0);
  cluster.hang_worker(1);
  cluster.pass(found_within + defaults::admission_wait + 1s);
  EXPECT_TRUE(cluster.all_over());
  const auto errors = cluster.errors();
  EXPECT_FALSE(errors.empty());
  for (const auto& error : errors) {
    EXPECT_EQ(code_of(error), ec::not_ready);
    EXPECT_EQ(text_of(error).find("the cluster could not serve within 6000"), 0U) << text_of(error);
  }
}

} // namespace
} // namespace troupe
