// Workers with hung engines whose actors answer.
#include "actors/scheduler/scheduler.hpp"
#include "tests/unit/actors/scheduler/scheduler_fixture.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

class scheduler_hang_test : public scheduler_fixture {
 protected:
  static void stall(peer& who, std::uint64_t oldest_step_ms = 12'300) {
    who.load.engine = {3, oldest_step_ms, 10'000};
    who.hello.engine = who.load.engine;
  }

  std::vector<std::string> texts(const std::string& event) const {
    std::vector<std::string> result;
    for (const auto& [what, text] : metrics->events)
      if (what == event)
        result.push_back(text);
    return result;
  }

  bool has_worker(std::uint64_t id) {
    const auto now = status();
    return std::any_of(now.workers.begin(), now.workers.end(),
                       [id](const auto& worker) { return worker.address.id.value == id; });
  }
};

TEST_F(scheduler_hang_test, an_expert_worker_whose_engine_hangs_is_fenced_and_its_experts_hosted_elsewhere) {
  start_ready();
  auto& hung = peers[1];
  stall(hung, 9'999);
  renew(hung);
  EXPECT_EQ(hung.log->fences, 0U);
  stall(hung);
  renew(hung);
  settle(); // its experts are loaded elsewhere
  EXPECT_EQ(hung.log->fences, 1U);
  EXPECT_FALSE(has_worker(11));
  EXPECT_TRUE(peers[0].log->is_ready());
  for (const auto& layer : peers[0].log->views.back().experts.layers)
    for (const auto& expert : layer->experts)
      EXPECT_EQ(expert.hosts, std::vector<worker_id>{{12}});
  EXPECT_EQ(
      texts("worker-hung"),
      std::vector<std::string>{
          "expert-11 has had its engine in one step for 12.3 s, and no step may take longer than 10.0 s: "
          "look "
          "at its processors and its device, and at the disk or network file system of its model, from which "
          "weights are read while it computes"});
  EXPECT_EQ(texts("worker-gone"), std::vector<std::string>{"expert-11 is fenced"});
  EXPECT_EQ(metrics->fences, (std::map<fence_reason, std::size_t>{{fence_reason::engine, 1}}));
}

TEST_F(scheduler_hang_test, who_hangs_may_not_join_until_its_engine_has_come_back) {
  start_ready();
  auto& hung = peers[1];
  stall(hung);
  renew(hung);
  hung.renews = false;
  for (int i = 0; i < 3; ++i) {
    join_again(hung);
    ASSERT_FALSE(hung.log->welcome);
    EXPECT_EQ(system.render(hung.log->welcome.error()),
              "troupe: not_ready: 'expert-11' cannot join: its engine has been in one step for 12.3 s");
  }
  EXPECT_EQ(metrics->count("worker-refused"), 0U) << "the operator knows";
  EXPECT_FALSE(has_worker(11));
  hung.hello.engine = hung.load.engine = {4, 0, 24'600};
  hung.renews = true;
  join_again(hung);
  EXPECT_TRUE(hung.log->welcome);
  EXPECT_TRUE(has_worker(11));
  pass(2s);
  EXPECT_TRUE(has_worker(11));
  EXPECT_EQ(metrics->count("worker-hung"), 1U);
}

TEST_F(scheduler_hang_test, a_stranger_that_hangs_is_refused_and_told_of_once) {
  start_ready();
  auto hello = expert_hello(13);
  hello.engine = {0, 30'000, 10'000};
  auto& stranger = join(hello);
  join_again(stranger);
  EXPECT_EQ(code_of(stranger.log->welcome.error()), ec::not_ready);
  EXPECT_EQ(texts("worker-refused"),
            std::vector<std::string>{"'expert-13' cannot join: its engine has been in one step for 30.0 s"});
}

TEST_F(scheduler_hang_test, the_last_attention_worker_is_fenced_too_and_the_cluster_is_not_ready) {
  start_ready();
  EXPECT_EQ(admit(request_of(1)).worker(), 1U);
  stall(peers[0]);
  renew(peers[0]);
  peers[0].renews = false;
  EXPECT_FALSE(status().ready);
  EXPECT_EQ(status().assigned, 0U);
  auto replay = request_of(1);
  replay.attempt = 1;
  replay.avoid = {{1}};
  auto& waits = admit(replay);
  EXPECT_FALSE(waits.is_here);
  pass(11s);
  EXPECT_EQ(waits.code(), ec::not_ready);
  EXPECT_EQ(text_of(waits.result.error()).find("the cluster could not serve within 10"), 0U);
}

TEST_F(scheduler_hang_test, a_host_that_answers_nobody_is_fenced) {
  start_ready(3, {.num_replicas = 2});
  peers[0].load.of_role = attention_load{.complaints = {{{12}, 10'500}}};
  pass(9s);
  EXPECT_TRUE(has_worker(12)) << "it has just joined";
  pass(2s);
  EXPECT_FALSE(has_worker(12));
  EXPECT_EQ(
      texts("worker-hung"),
      std::vector<std::string>{"expert-12 has answered nothing for 10.5 s, say 1 of 1 attention workers, and "
                               "its engine has given no step back: look at it, and at the network between "
                               "them"});
  EXPECT_EQ(metrics->fences, (std::map<fence_reason, std::size_t>{{fence_reason::unanswered, 1}}));
  EXPECT_TRUE(peers[0].log->is_ready());
}

TEST_F(scheduler_hang_test, nobody_loses_the_last_host_of_an_expert_to_hearsay) {
  start_ready(3);
  peers[0].load.of_role = attention_load{.complaints = {{{12}, 99'000}}};
  pass(30s);
  EXPECT_TRUE(has_worker(12));
  EXPECT_TRUE(metrics->fences.empty());
}

TEST_F(scheduler_hang_test, a_gateway_that_hears_nothing_gets_another_attention_worker) {
  start_ready();
  join(attention_hello(2));
  join(attention_hello(3));
  join(gateway_hello(70)).load.of_role = gateway_load{{{{2}, 10'100}}};
  pass(11s);
  EXPECT_FALSE(has_worker(2));
  EXPECT_EQ(metrics->fences[fence_reason::unanswered], 1U);
}

TEST_F(scheduler_hang_test, a_lapsed_lease_counts_as_such) {
  start_ready();
  peers[1].renews = false;
  pass(3s);
  EXPECT_EQ(metrics->fences, (std::map<fence_reason, std::size_t>{{fence_reason::lease, 1}}));
  EXPECT_EQ(metrics->count("worker-hung"), 0U);
}

} // namespace
} // namespace troupe
