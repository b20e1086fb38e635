// The whole cluster in one deterministic test: whatever dies, every request gets its undisturbed output.
#include <string>
#include <tuple>

#include "tests/unit/actors/whole_cluster.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

/// Plans a dozen requests within three seconds, and `num_deaths` deaths within four.
void plan_disturbed_run(whole_cluster& cluster, std::size_t num_deaths) {
  for (std::size_t i = 0; i < 12; ++i)
    cluster.later(cluster.up_to(3s),
                  [&cluster] { cluster.open_session(cluster.below(5) == 0 ? 1 + cluster.below(20) : 0); });
  for (std::size_t i = 0; i < num_deaths; ++i)
    cluster.later(cluster.up_to(4s), [&cluster] {
      cluster.pass_some_messages();
      cluster.kill_anybody();
    });
}

/// Runs until every client has its answer.
void finish_run(whole_cluster& cluster) {
  cluster.pass(4s);
  for (std::size_t i = 0; i < 1000 && !cluster.all_over(); ++i)
    cluster.pass(100ms);
  EXPECT_TRUE(cluster.all_over()) << "a request has not ended";
}

TEST(cluster_test, serves_without_deaths) {
  whole_cluster cluster{0};
  plan_disturbed_run(cluster, 0);
  finish_run(cluster);
  cluster.expect_undisturbed_output();
  cluster.wait_until_whole();
  cluster.expect_nothing_left();
  EXPECT_EQ(cluster.num_replays(), 0U);
  EXPECT_EQ(cluster.num_retries(), 0U);
}

TEST(cluster_test, property_requests_survive_the_deaths_of_any_workers_and_the_scheduler) {
  std::size_t num_replays = 0;
  std::uint64_t num_retries = 0;
  for (std::uint32_t seed = 1; seed <= 50 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed};
    plan_disturbed_run(cluster, 10);
    finish_run(cluster);
    cluster.expect_undisturbed_output();
    cluster.wait_until_whole();
    cluster.expect_nothing_left();
    num_replays += cluster.num_replays();
    num_retries += cluster.num_retries();
  }
  EXPECT_GT(num_replays, 50U) << "the deaths did not hit what they were meant for";
  EXPECT_GT(num_retries, 50U) << "the deaths did not hit what they were meant for";
}

TEST(cluster_test, property_a_host_without_files_serves_while_any_one_host_dies_again_and_again) {
  std::uint64_t num_fetched = 0;
  for (std::uint32_t seed = 1; seed <= 40 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed, 2};
    plan_disturbed_run(cluster, 0);
    for (auto when = 0ms; when < 4s; when += 800ms) // each is back, and loaded, before the next one dies
      cluster.later(when + cluster.up_to(200ms), [&cluster] {
        cluster.pass_some_messages();
        cluster.kill_host(cluster.below(3));
      });
    finish_run(cluster);
    cluster.expect_undisturbed_output();
    cluster.wait_until_whole();
    cluster.expect_nothing_left();
    num_fetched += cluster.num_fetched();
  }
  EXPECT_GT(num_fetched, 400U) << "the host without files has got few experts";
}

TEST(cluster_test, choices_beyond_the_seats_say_the_same_one_after_another) {
  for (std::uint32_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed};
    for (std::uint32_t num_choices : {11U, 1U, 9U}) // a worker has 4 seats
      cluster.open_session(0, num_choices);
    if (seed > 2)
      cluster.later(cluster.up_to(400ms), [&cluster] { cluster.kill_worker(cluster.below(2)); });
    finish_run(cluster);
    cluster.expect_undisturbed_output();
    cluster.wait_until_whole();
    cluster.expect_nothing_left();
  }
}

TEST(cluster_test, the_death_of_a_gateway_leaves_nothing_behind) {
  for (std::uint32_t seed = 1; seed <= 10 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    whole_cluster cluster{seed};
    for (std::size_t i = 0; i < 12; ++i)
      cluster.open_session();
    cluster.pass(100ms + cluster.up_to(200ms));
    cluster.pass_some_messages();
    EXPECT_FALSE(cluster.all_over());
    cluster.kill_gateway();
    cluster.wait_until_whole();
    cluster.expect_nothing_left();
  }
}

TEST(cluster_test, only_deaths_are_reported_as_deaths) {
  whole_cluster cluster{1};
  const auto last_word = [&cluster] { // the last event about a worker
    cluster.pass(10ms);
    std::string word;
    for (const auto& [event, text] : cluster.events())
      if (event.starts_with("worker-"))
        word = text;
    return word;
  };
  cluster.stop_host(0);
  EXPECT_EQ(last_word(), "expert-0 has left");
  cluster.kill_host(1);
  EXPECT_EQ(last_word(), "expert-1 has died");
}

TEST(cluster_test, the_same_seed_gives_the_same_run) {
  const auto run = [] {
    whole_cluster cluster{7};
    plan_disturbed_run(cluster, 10);
    finish_run(cluster);
    return std::tuple{cluster.now(), cluster.num_replays(), cluster.num_retries(), cluster.events()};
  };
  EXPECT_EQ(run(), run());
}

} // namespace
} // namespace troupe
