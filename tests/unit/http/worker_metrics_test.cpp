// The metrics endpoint of worker processes, and its families.
#include <atomic>

#include <gtest/gtest.h>

#include <prometheus/counter.h>

#include "services/metrics/attention_families.hpp"
#include "services/metrics/endpoint.hpp"
#include "services/metrics/expert_families.hpp"
#include "services/metrics/open_metrics.hpp"
#include "services/metrics/rebalancer_families.hpp"
#include "services/metrics/scheduler_families.hpp"
#include "tests/unit/http/raw_client.hpp"

namespace troupe::metrics {

namespace {

using http_test::ask;
using http_test::raw_client;

/// Whether the page has this line.
bool has(const registry& families, const std::string& line) {
  return ("\n" + families.text()).find("\n" + line + "\n") != std::string::npos;
}

placement two_workers(std::vector<expert_hosts> experts) {
  placement result;
  result.term = 4;
  result.epoch = 9;
  result.layers = {std::make_shared<const layer_placement>(),
                   std::make_shared<const layer_placement>(layer_placement{1, std::move(experts)})};
  return result;
}

} // namespace

TEST(metrics_endpoint, answers_scrapes_and_probes) {
  auto families = std::make_shared<registry>("troupe_");
  families->counter("expert_steps_total").Increment(3);
  std::atomic<bool> ready{false};
  std::atomic<bool> hangs{false};
  const endpoint served{{},
                        families,
                        {[&ready] { return std::string(ready ? "" : "standby"); },
                         [&hangs] { return std::string(hangs ? "hangs" : ""); }}};
  const auto page = ask(served.port(), "GET", "/metrics?x=1");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.headers.at("content-type"), text_content_type);
  EXPECT_EQ(page.headers.at("date").size(), 29U); // "Sun, 06 Nov 1994 08:49:37 GMT"
  EXPECT_NE(page.body.find("# TYPE troupe_expert_steps_total counter\ntroupe_expert_steps_total 3\n"),
            std::string::npos);
  EXPECT_EQ(ask(served.port(), "GET", "/health").status, 200);
  const auto refused = ask(served.port(), "GET", "/ready");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.body, "not ready: standby\n");
  ready = true;
  EXPECT_EQ(ask(served.port(), "GET", "/ready").status, 200);
  hangs = true;
  const auto unhealthy = ask(served.port(), "GET", "/health");
  EXPECT_EQ(unhealthy.status, 503);
  EXPECT_EQ(unhealthy.body, "to be replaced: hangs\n");
  hangs = false;
  EXPECT_EQ(ask(served.port(), "GET", "/").status, 404);
  EXPECT_EQ(ask(served.port(), "POST", "/metrics").status, 405);
  raw_client kept{served.port()};
  for (int i = 0; i < 2; ++i) {
    kept.request("HEAD", "/health");
    EXPECT_EQ(kept.read(true).status, 200);
  }
  raw_client hostile{served.port()};
  hostile.send("NONSENSE\r\n\r\n");
  EXPECT_TRUE(hostile.ends());
}

TEST(metrics_endpoint, listens_where_a_name_says) {
  const endpoint served{{"localhost", 0}, std::make_shared<registry>()};
  EXPECT_EQ(ask(served.port(), "GET", "/health").status, 200);
}

TEST(metrics_endpoint, a_port_in_use_is_named) {
  auto families = std::make_shared<registry>();
  const endpoint first{{}, families};
  EXPECT_THROW((endpoint{{"127.0.0.1", first.port()}, families}), std::runtime_error);
  EXPECT_THROW((endpoint{{std::string(64, 'x'), 0}, families}), std::runtime_error);
}

TEST(attention_families, levels_and_counts) {
  auto families = std::make_shared<registry>("vllm:");
  attention_families reports{families};
  reports.on_bounds({8, 100, 1600});
  reports.on_engine({.steps = 1, .oldest_step_ms = 1500, .step_limit_ms = 30000});
  reports.on_level({3, 2, 25, 100});
  reports.on_preemption(30);
  reports.on_expert_retry(ec::peer_down);
  reports.on_expert_retry(ec::none);
  reports.on_failure(ec::engine_failed);
  reports.on_start(1'000'000'000);
  EXPECT_TRUE(has(*families, "vllm:num_requests_running 3"));
  EXPECT_TRUE(has(*families, "vllm:sequence_failures_total{reason=\"engine_failed\"} 1"));
  EXPECT_TRUE(has(*families, "vllm:num_sequences_waiting 2"));
  EXPECT_TRUE(has(*families, "vllm:kv_cache_usage_perc 0.25"));
  EXPECT_TRUE(has(*families, "vllm:kv_cache_used_blocks 25"));
  EXPECT_TRUE(has(*families, "vllm:kv_cache_blocks 100"));
  EXPECT_TRUE(has(*families, "vllm:kv_cache_capacity_tokens 1600"));
  EXPECT_TRUE(has(*families, "vllm:num_requests_running_limit 8"));
  EXPECT_TRUE(has(*families, "vllm:engine_step_age_seconds{engine=\"attention\"} 1.5"));
  EXPECT_TRUE(has(*families, "vllm:engine_step_limit_seconds{engine=\"attention\"} 30"));
  EXPECT_TRUE(has(*families, "vllm:num_preemptions_total 1"));
  EXPECT_TRUE(has(*families, "vllm:preempted_tokens_total 30"));
  EXPECT_TRUE(has(*families, "vllm:expert_retries_total{reason=\"" + to_string(ec::peer_down) + "\"} 1"));
  EXPECT_TRUE(has(*families, "vllm:expert_retries_total{reason=\"other\"} 1"));
  EXPECT_TRUE(has(*families, "vllm:sequence_queue_time_seconds_sum 1"));
}

TEST(expert_families, rows_are_counted_by_layer_and_expert) {
  auto families = std::make_shared<registry>();
  expert_families reports{families};
  const std::uint64_t rows[] = {5, 0, 7};
  reports.on_step(2, 1, rows, 1000);
  reports.on_step(2, 1, rows, 1000);
  reports.on_batch(2, 12, 3'000'000, 1'000'000);
  reports.on_queue(42);
  reports.on_bounds(512, 0);
  reports.on_hosted(3, 3000);
  reports.on_refusal(ec::not_hosted);
  reports.on_fetch(fetch_outcome::lost);
  const std::string page = families->text(); // shows the rows
  EXPECT_EQ(page.find("expert_memory_limit_bytes"), std::string::npos) << "it has no limit";
  EXPECT_TRUE(has(*families, "troupe_expert_layer_rows_total{layer=\"2\"} 24"));
  EXPECT_TRUE(has(*families, "troupe_expert_memory_bytes 3000"));
  EXPECT_TRUE(has(*families, "troupe_expert_refusals_total{reason=\"not_hosted\"} 1"));
  EXPECT_TRUE(has(*families, "troupe_expert_fetches_total{outcome=\"lost\"} 1"));
  EXPECT_TRUE(has(*families, "troupe_expert_queue_rows_limit 512"));
  EXPECT_TRUE(has(*families, "troupe_expert_rows_total{expert=\"0\",layer=\"2\"} 10"));
  EXPECT_TRUE(has(*families, "troupe_expert_rows_total{expert=\"2\",layer=\"2\"} 14"));
  EXPECT_EQ(families->text().find("expert=\"1\""), std::string::npos);
  EXPECT_TRUE(has(*families, "troupe_expert_queue_rows 42"));
  EXPECT_TRUE(has(*families, "troupe_expert_batch_seconds_bucket{le=\"0.005\"} 1"));
  EXPECT_TRUE(has(*families, "troupe_expert_batch_seconds_bucket{le=\"0.002\"} 0"));
}

TEST(scheduler_families, placement_and_queue) {
  auto families = std::make_shared<registry>();
  std::string logged;
  scheduler_families reports{families, [&logged](const char* name, const std::string& text) {
                               logged = std::string(name) + ": " + text;
                             }};
  reports.on_bounds(1024, 0);
  reports.on_requests(6, 600, 2);
  reports.on_memory({500, 300, 1000, 70});
  reports.on_workers({1, 2, 3});
  reports.on_published(two_workers({{{{1}}}, {{{2}}}}), true);
  reports.on_event("worker-joined", "expert-0");
  reports.on_fenced(fence_reason::engine);
  reports.on_fenced(fence_reason::engine);
  reports.on_fenced(fence_reason::unanswered);
  reports.on_refused(ec::overloaded);
  EXPECT_TRUE(has(*families, "troupe_fenced_workers_total{reason=\"engine\"} 2"));
  EXPECT_TRUE(has(*families, "troupe_fenced_workers_total{reason=\"unanswered\"} 1"));
  EXPECT_TRUE(has(*families, "troupe_num_requests_waiting 6"));
  EXPECT_TRUE(has(*families, "troupe_queued_bytes 600"));
  EXPECT_TRUE(has(*families, "troupe_kv_cache_reserved_tokens 500"));
  EXPECT_TRUE(has(*families, "troupe_kv_cache_used_tokens 300"));
  EXPECT_TRUE(has(*families, "troupe_kv_cache_total_tokens 1000"));
  EXPECT_TRUE(has(*families, "troupe_expected_answer_tokens 70"));
  EXPECT_TRUE(has(*families, "troupe_queued_bytes_limit 1024"));
  EXPECT_EQ(families->text().find("troupe_num_requests_waiting_limit"), std::string::npos)
      << "it has no limit";
  EXPECT_TRUE(has(*families, "troupe_cluster_workers{member=\"gateway\"} 1"));
  EXPECT_TRUE(has(*families, "troupe_cluster_workers{member=\"expert\"} 3"));
  EXPECT_TRUE(has(*families, "troupe_experts_placed 2"));
  EXPECT_TRUE(has(*families, "troupe_experts_without_host 0"));
  EXPECT_TRUE(has(*families, "troupe_expert_copies 2"));
  EXPECT_TRUE(has(*families, "troupe_placement_epoch 9"));
  EXPECT_TRUE(has(*families, "troupe_scheduler_refusals_total{reason=\"overloaded\"} 1"));
  EXPECT_TRUE(has(*families, "troupe_placement_balancedness 1"));
  EXPECT_TRUE(has(*families, "troupe_cluster_ready 1"));
  EXPECT_EQ(logged, "worker-joined: expert-0");
}

TEST(rebalancer_families, plans_moves_and_what_there_is) {
  auto families = std::make_shared<registry>();
  std::string logged;
  rebalancer_families reports{families, [&logged](const char* name, const std::string& text) {
                                logged = std::string(name) + ": " + text;
                              }};
  for (const char* series :
       {"placement_imbalance", "placement_moves_left", "placement_moved_bytes_total",
        "placement_plans_total{result=\"carried_out\"}", "placement_plans_total{result=\"dropped\"}",
        "placement_moves_total{result=\"done\"}", "placement_moves_total{result=\"given_up\"}"})
    EXPECT_TRUE(has(*families, std::string("troupe_") + series + " 0"))
        << series << " is there from the start";
  reports.on_look(1.25, 0.5);
  EXPECT_FALSE(has(*families, "troupe_placement_wanted_workers 0")) << "a zero would be taken for a number";
  reports.on_wanted_workers(5);
  reports.on_wanted_workers(4);
  reports.on_plan(true, 0.0625);
  reports.on_plan(false, 0.03125);
  reports.on_plan(false, 0.015625);
  reports.on_moves_left(3);
  reports.on_move(true, 100);
  reports.on_move(true, 20);
  reports.on_move(false, 0);
  reports.on_event("placement-change", "change 1");
  for (const char* line :
       {"placement_imbalance 1.25", "placement_max_share 0.5", "placement_wanted_workers 4",
        "placement_predicted_gain 0.015625", "placement_moves_left 3", "placement_moved_bytes_total 120",
        "placement_plans_total{result=\"carried_out\"} 1", "placement_plans_total{result=\"dropped\"} 2",
        "placement_moves_total{result=\"done\"} 2", "placement_moves_total{result=\"given_up\"} 1"})
    EXPECT_TRUE(has(*families, std::string("troupe_") + line)) << line;
  EXPECT_EQ(logged, "placement-change: change 1");
}

TEST(scheduler_families, experts_that_nobody_hosts) {
  auto families = std::make_shared<registry>();
  scheduler_families reports{families};
  EXPECT_TRUE(has(*families, "troupe_fenced_workers_total{reason=\"engine\"} 0")) << "there from the start";
  reports.on_published(two_workers({{{{1}, {2}}}, {{}}, {{{2}}}}), false);
  EXPECT_TRUE(has(*families, "troupe_experts_placed 2"));
  EXPECT_TRUE(has(*families, "troupe_experts_without_host 1"));
  EXPECT_TRUE(has(*families, "troupe_expert_copies 3"));
  EXPECT_TRUE(has(*families, "troupe_cluster_ready 0"));
}

TEST(scheduler_families, balancedness_is_mean_over_maximum) {
  const worker_id a{1};
  const worker_id b{2};
  EXPECT_EQ(balancedness({}), 0);
  EXPECT_EQ(balancedness(two_workers({{{a}}, {{}}})), 0);
  EXPECT_EQ(balancedness(two_workers({{{a}}, {{a}}, {{a}}, {{b}}})), 2.0 / 3);
  EXPECT_EQ(balancedness(two_workers({{{a, b}}, {{a, b}}})), 1);
}

TEST(open_metrics, has_the_samples_under_its_own_names_of_families) {
  EXPECT_EQ(to_open_metrics("# HELP a_total What \"a\" is\n# TYPE a_total counter\na_total{x=\"y\"} 3\n"
                            "# HELP b B\n# TYPE b gauge\nb 1\n# TYPE c_total histogram\nc_total_count 0\n"),
            "# TYPE a counter\n# HELP a What \"a\" is\na_total{x=\"y\"} 3\n"
            "# TYPE b gauge\n# HELP b B\nb 1\n# TYPE c_total histogram\nc_total_count 0\n# EOF\n");
  EXPECT_EQ(to_open_metrics(""), "# EOF\n");
}

TEST(open_metrics, is_what_its_media_type_asks_for) {
  auto families = std::make_shared<registry>("troupe_");
  families->counter("expert_steps_total").Increment(3);
  const endpoint served{{}, families, {}};
  const auto page =
      ask(served.port(), "GET", "/metrics", "",
          "Accept: application/openmetrics-text;version=1.0.0;q=0.6,text/plain;version=0.0.4;q=0.3\r\n");
  EXPECT_EQ(page.headers.find("content-type")->second, open_metrics_content_type);
  EXPECT_TRUE(page.body.ends_with("\n# EOF\n"));
  EXPECT_NE(page.body.find("# TYPE troupe_expert_steps counter\n"), std::string::npos);
  EXPECT_NE(page.body.find("\ntroupe_expert_steps_total 3\n"), std::string::npos);
  const auto plain = ask(served.port(), "GET", "/metrics", "", "Accept: text/plain\r\n");
  EXPECT_EQ(plain.headers.find("content-type")->second, text_content_type);
  EXPECT_EQ(plain.body.find("# EOF"), std::string::npos);
}

} // namespace troupe::metrics
