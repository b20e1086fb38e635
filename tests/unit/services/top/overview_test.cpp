// The figures computed from two samples of a gateway.
#include "services/top/overview.hpp"

#include <stdexcept>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "services/top/target_list.hpp"

namespace troupe::top {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::StartsWith;
using ::testing::ThrowsMessage;

constexpr const char* cluster_page = R"({
  "ready": true,
  "scheduler": {"reachable": true, "term": 3, "fingerprint": "f", "queued": 2, "assigned": 5},
  "workers": [
    {"name": "gateway-0", "role": "gateway", "id": "1", "endpoint": "", "lease_age_ms": 10,
     "load": {"running": 7, "waiting": 0, "kv_tokens_used": 0, "oldest_step_ms": 0}, "hosted": []},
    {"name": "attention-0", "role": "attention", "id": "2", "endpoint": "", "lease_age_ms": 10, "max_num_seqs": 8,
     "kv_capacity_tokens": 100, "max_model_len": 64,
     "load": {"running": 4, "waiting": 1, "kv_tokens_used": 25, "oldest_step_ms": 0}, "hosted": []},
    {"name": "expert-0", "role": "expert", "id": "3", "endpoint": "", "lease_age_ms": 10,
     "load": {"running": 1, "waiting": 9, "kv_tokens_used": 0, "oldest_step_ms": 0}, "hosted": [[0, 0], [0, 1]]},
    {"name": "expert-1", "role": "expert", "id": "4", "endpoint": "", "lease_age_ms": 1700,
     "load": {"running": 0, "waiting": 0, "kv_tokens_used": 0, "oldest_step_ms": 0}, "hosted": [[0, 1]]}],
  "placement": {"term": 3, "epoch": 1, "layers": [
    {"layer": 0, "version": 1, "experts": [["expert-0"], ["expert-0", "expert-1"]]},
    {"layer": 1, "version": 1, "experts": []}]}})";

constexpr const char* away_page =
    R"({"ready": false, "scheduler": {"reachable": false, "error": "it is away"},
  "workers": [{"name": "expert-0", "role": "expert", "id": "3", "endpoint": ""}], "placement": {"term": 3, "epoch": 1}})";

constexpr const char* placement_page =
    R"({"planner": "on", "change": {"id": 7, "reason": "imbalance", "moves": 4, "bytes": 1,
  "moves_done": 1, "moves_given_up": 0, "moves_left": 3, "elapsed_ms": 5, "before": {}, "after": {}}, "last": null,
  "pins": [], "replicas": [], "drained": ["expert-0"], "imbalance": 1.25, "wanted_workers": null})";

constexpr const char* history_page =
    R"({"format": "troupe-history 1", "fingerprint": "f", "layer_experts": [2, 0],
  "half_life_ms": 1, "age_ms": 1, "tokens": 1, "rows": 1, "decayed": [[0, 0], []], "windows": [
  {"worker": "a", "sequence": 1, "at_ms": 1, "duration_ms": 1, "tokens": 1, "rows": [[0, 10, 1, 2], []]},
  {"worker": "b", "sequence": 1, "at_ms": 1, "duration_ms": 1, "tokens": 1, "rows": [[1, 4], []]}]})";

sample sample_at(int seconds, const std::string& metrics) {
  sample one;
  one.at = std::chrono::steady_clock::time_point{} + std::chrono::seconds{seconds};
  one.metrics = metrics_text(metrics);
  one.cluster = parse_cluster(cluster_page);
  one.placement = parse_placement(placement_page);
  one.recent_rows = parse_history(history_page);
  return one;
}

process_state silent_process(std::string role) {
  process_state one;
  one.role = std::move(role);
  return one;
}

process_state process_at(int seconds, std::string role, double cpu_seconds, double resident_bytes) {
  process_state one = silent_process(std::move(role));
  one.answered_at = std::chrono::steady_clock::time_point{} + std::chrono::seconds{seconds};
  one.cpu_seconds = cpu_seconds;
  one.resident_bytes = resident_bytes;
  return one;
}

std::string metrics(int tokens, int fast, int all) {
  return "troupe_generation_tokens_total " + std::to_string(tokens) + "\ntroupe_prompt_tokens_total 0\n"
         + "troupe_request_success_total{finished_reason=\"stop\"} 1\n"
         + "troupe_time_to_first_token_seconds_bucket{le=\"0.1\"} " + std::to_string(fast)
         + "\ntroupe_time_to_first_token_seconds_bucket{le=\"+Inf\"} " + std::to_string(all) + "\n";
}

TEST(top_overview, has_rates_and_latencies_of_the_time_between) {
  const auto seen = compare(sample_at(10, metrics(100, 5, 5)), sample_at(12, metrics(300, 15, 15)));
  EXPECT_EQ(seen.new_tokens_per_second, 100);
  EXPECT_EQ(seen.prompt_tokens_per_second, 0);
  EXPECT_EQ(seen.ended_per_second, 0);
  EXPECT_FALSE(seen.refused_per_second) << "the page has no such family";
  EXPECT_DOUBLE_EQ(seen.first_token.p50.value(), 0.05);
  EXPECT_FALSE(seen.between_tokens.p99);
}

TEST(top_overview, has_the_share_of_known_tokens_in_between) {
  auto before = sample_at(1, "");
  auto after = sample_at(2, "");
  EXPECT_FALSE(compare(before, after).prefix_hits) << "no sequence started";
  before.cluster.workers[1].load->prefix_queries = 100;
  before.cluster.workers[1].load->prefix_hits = 100;
  after.cluster.workers[1].load->prefix_queries = 300;
  after.cluster.workers[1].load->prefix_hits = 150;
  EXPECT_EQ(compare(before, after).prefix_hits, 0.25);
  after.cluster.workers[1].load->prefix_queries = 80; // it has started again
  after.cluster.workers[1].load->prefix_hits = 20;
  EXPECT_EQ(compare(before, after).prefix_hits, 0.25);
}

TEST(top_overview, of_one_sample_alone_has_no_rates) {
  const auto one = sample_at(10, metrics(100, 5, 5));
  const auto seen = compare(one, one);
  EXPECT_FALSE(seen.new_tokens_per_second);
  EXPECT_FALSE(seen.first_token.p50);
  EXPECT_EQ(seen.running, 5U);
}

TEST(top_overview, has_the_cluster_and_its_placement) {
  const auto seen = compare(sample_at(1, ""), sample_at(2, ""));
  EXPECT_TRUE(seen.is_ready);
  EXPECT_EQ(seen.scheduler, "term 3");
  EXPECT_EQ(seen.waiting, 2U);
  EXPECT_EQ(seen.kv_used, 25U);
  EXPECT_EQ(seen.kv_capacity, 100U);
  EXPECT_EQ(seen.imbalance, 1.25);
  EXPECT_EQ(seen.planner, "planner on, change 7 (imbalance): 1 of 4 moves done");
}

TEST(top_overview, names_the_experts_with_more_than_their_part) {
  const auto one = sample_at(1, "");
  const auto hot = hottest_experts(one.recent_rows, one.cluster, 3);
  ASSERT_EQ(hot.size(), 1U); // 10 rows and 6
  EXPECT_EQ(hot[0].expert, 0U);
  EXPECT_DOUBLE_EQ(hot[0].times_even, 1.25);
  EXPECT_THAT(hot[0].hosts, ElementsAre("expert-0"));
  EXPECT_THAT(hottest_experts({{1, 1, 1}, {}}, one.cluster, 3), IsEmpty());
  EXPECT_EQ(hottest_experts({{1, 0}, {4, 0, 0}, {0, 9}}, one.cluster, 2).size(), 2U);
  EXPECT_EQ(hottest_experts({{1, 0}, {4, 0, 0}, {0, 9}}, one.cluster, 2)[0].layer, 1U) << "of three experts";
}

TEST(top_overview, has_a_line_for_each_worker_those_in_trouble_first) {
  const auto lines = compare(sample_at(1, ""), sample_at(2, "")).workers;
  EXPECT_THAT(lines,
              ElementsAre(Field(&worker_line::name, "attention-0"), Field(&worker_line::name, "expert-0"),
                          Field(&worker_line::name, "expert-1"), Field(&worker_line::name, "gateway-0")));
  EXPECT_EQ(lines[0].state, "ok");
  EXPECT_EQ(lines[0].running, "4/8");
  EXPECT_EQ(lines[0].load, 1.0);
  EXPECT_EQ(lines[0].memory, "25/100 KV tokens");
  EXPECT_EQ(lines[1].state, "draining");
  EXPECT_EQ(lines[1].waiting, 9U);
  EXPECT_EQ(lines[1].memory, "2 experts");
  EXPECT_DOUBLE_EQ(lines[1].load.value(), 13.0 / 16) << "all rows of one expert, half of those of the other";
  EXPECT_EQ(lines[2].state, "silent for 1.7 s");
  EXPECT_EQ(lines[2].memory, "1 expert");
  EXPECT_FALSE(lines[3].load);
}

TEST(top_overview, says_what_is_known_while_the_scheduler_is_away) {
  auto away = sample_at(2, "");
  away.cluster = parse_cluster(away_page);
  away.placement.reset();
  away.recent_rows.clear();
  away.not_read = {"placement: the scheduler is away"};
  const auto seen = compare(sample_at(1, ""), away);
  EXPECT_FALSE(seen.is_ready);
  EXPECT_EQ(seen.scheduler, "the scheduler does not answer: it is away");
  EXPECT_EQ(seen.planner, "planner not known");
  EXPECT_THAT(seen.not_read, ElementsAre("placement: the scheduler is away"));
  ASSERT_EQ(seen.workers.size(), 1U);
  EXPECT_EQ(seen.workers[0].state, "not known");
  EXPECT_EQ(seen.workers[0].running, "-");
  EXPECT_FALSE(seen.workers[0].waiting);
  EXPECT_EQ(seen.workers[0].memory, "-");
  EXPECT_THAT(seen.hottest, IsEmpty());
  EXPECT_FALSE(seen.running);
  EXPECT_FALSE(seen.waiting);
  EXPECT_FALSE(seen.kv_used);
  EXPECT_FALSE(seen.kv_capacity);
}

TEST(top_overview, an_attention_worker_that_says_nothing_has_no_zeros) {
  auto one = sample_at(2, "");
  one.cluster = parse_cluster(R"({"ready": false, "scheduler": {"reachable": false, "error": "it is away"},
    "workers": [{"name": "attention-0", "role": "attention", "id": "3", "endpoint": ""}],
    "placement": {"term": 3, "epoch": 1}})");
  const auto seen = compare(sample_at(1, ""), one);
  EXPECT_EQ(seen.workers[0].running, "-");
  EXPECT_FALSE(seen.workers[0].load);
  EXPECT_EQ(seen.workers[0].memory, "-");
  EXPECT_FALSE(seen.kv_used);
}

TEST(top_overview, has_processor_time_and_memory_of_the_processes_that_answer) {
  auto before = sample_at(10, "");
  auto after = sample_at(12, "");
  before.processes = {{"expert-0", process_at(10, "expert", 5, 1e6)},
                      {"expert-1", process_at(10, "expert", 50, 1e6)}};
  after.processes = {{"expert-0", process_at(12, "expert", 8, 2e6)},
                     {"expert-1", process_at(12, "expert", 1, 2e6)},
                     {"attention-0", silent_process("attention")},
                     {"scheduler-0", process_at(12, "scheduler", 1, 3e6)},
                     {"scheduler-1", silent_process("scheduler")}};
  const auto lines = compare(before, after).workers;
  ASSERT_EQ(lines.size(), 6U);
  EXPECT_FALSE(lines[0].resident_bytes) << "it has not answered";
  EXPECT_EQ(lines[1].resident_bytes, 2e6);
  EXPECT_EQ(lines[1].processors, 1.5);
  EXPECT_EQ(lines[2].processors, 0.5) << "it has begun again";
  EXPECT_EQ(lines[4].name, "scheduler-1");
  EXPECT_EQ(lines[4].state, "no answer");
  EXPECT_EQ(lines[5].state, "ok");
  EXPECT_FALSE(lines[5].processors) << "there was nothing before";
  EXPECT_FALSE(lines[5].waiting);
}

TEST(top_overview, has_processor_time_by_each_process_own_clock) {
  auto before = sample_at(10, "");
  auto after = sample_at(12, "");
  before.processes = {{"expert-0", process_at(10, "expert", 5, 1e6)},
                      {"expert-1", process_at(11, "expert", 5, 1e6)}};
  after.processes = {{"expert-0", process_at(14, "expert", 9, 1e6)},
                     {"expert-1", process_at(13, "expert", 9, 1e6)}};
  auto lines = compare(before, after).workers;
  EXPECT_EQ(lines[1].processors, 1) << "four seconds in four";
  EXPECT_EQ(lines[2].processors, 2) << "four seconds in two";
  before.processes["expert-0"].started = 100;
  after.processes["expert-0"].started = 200;
  lines = compare(before, after).workers;
  EXPECT_EQ(lines[1].processors, 9.0 / 4) << "all of it has come since";
  EXPECT_FALSE(compare(after, after).workers[1].processors) << "no time between";
}

TEST(top_targets, are_read_as_prometheus_reads_them) {
  const auto found = parse_targets(
      R"([{"targets": ["a:1"], "labels": {"role": "expert", "process": "expert-0"}},
          {"targets": ["b:2",
             "c:3"], "labels": {"__scheme__": "https"}}])",
      "run/targets.json");
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].process, "expert-0");
  EXPECT_EQ(found[0].role, "expert");
  EXPECT_EQ(found[0].url, "http://a:1");
  EXPECT_EQ(found[2].process, "c:3");
  EXPECT_EQ(found[2].url, "https://c:3");
  EXPECT_EQ(found[0].source, "run/targets.json:1");
  EXPECT_EQ(found[1].source, "run/targets.json:2");
  EXPECT_EQ(found[2].source, "run/targets.json:3");
  for (const char* text :
       {"", "{}", "[1]", R"([{"labels": {}}])", R"([{"targets": [1]}])", R"([{"targets": {"a": 1}}])"}) {
    EXPECT_THAT([text] { parse_targets(text, "run/targets.json"); },
                ThrowsMessage<std::runtime_error>(StartsWith("run/targets.json:")))
        << text;
  }
}

TEST(top_targets, an_error_names_the_line) {
  EXPECT_THAT([] { parse_targets("[\n  {\n    \"targets\": [a:1]}]", "t.json"); },
              ThrowsMessage<std::runtime_error>("t.json:3: this is no JSON"));
}

TEST(top_overview, names_a_process_that_does_not_answer) {
  auto one = sample_at(1, "");
  one.processes = {{"expert-0", process_at(1, "expert", 5, 1e6)}, {"expert-1", silent_process("expert")}};
  one.processes["expert-1"].error = "t.json:2: expert-1: GET /metrics: Connection refused";
  EXPECT_THAT(compare(one, one).not_read,
              ElementsAre("t.json:2: expert-1: GET /metrics: Connection refused"));
  one.processes["expert-0"] = one.processes["expert-2"] = one.processes["expert-1"];
  EXPECT_THAT(compare(one, one).not_read,
              ElementsAre("t.json:2: expert-1: GET /metrics: Connection refused (and 2 more)"));
}

TEST(top_pages, of_something_else_are_errors) {
  for (const char* page : {"", "[]", "{}", R"({"ready": 1})"}) {
    EXPECT_THROW(parse_cluster(page), std::runtime_error) << page;
    EXPECT_THROW(parse_placement(page), std::runtime_error) << page;
    EXPECT_THROW(parse_history(page), std::runtime_error) << page;
  }
}

} // namespace
} // namespace troupe::top
