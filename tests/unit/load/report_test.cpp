#include "load/report.hpp"

#include <utility>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "services/options/option_parser.hpp"

namespace troupe::load {
namespace {

request_record answered(double ttft, double latency, unsigned tokens) {
  request_record r;
  r.ok = true;
  r.model = "served";
  r.input_tokens = 10;
  r.output_tokens = tokens;
  r.ttft = ttft;
  r.latency = latency;
  r.gaps = {0.01};
  return r;
}

TEST(report, computes_what_vllm_reports_under_the_same_names) {
  request_record failed;
  failed.error = "status 503";
  auto json =
      nlohmann::json::parse(report_json({}, {answered(0.1, 0.5, 5), answered(0.3, 1.3, 11), failed}, 2.0));
  EXPECT_EQ(json["completed"], 2);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["total_input_tokens"], 20);
  EXPECT_EQ(json["total_output_tokens"], 16);
  EXPECT_DOUBLE_EQ(json["request_throughput"], 1.0);
  EXPECT_DOUBLE_EQ(json["output_throughput"], 8.0);
  EXPECT_DOUBLE_EQ(json["total_token_throughput"], 18.0);
  EXPECT_DOUBLE_EQ(json["mean_ttft_ms"], 200.0);
  EXPECT_DOUBLE_EQ(json["median_tpot_ms"], 100.0);
  EXPECT_DOUBLE_EQ(json["std_ttft_ms"], 100.0);
  EXPECT_DOUBLE_EQ(json["p75_ttft_ms"], 250.0);
  EXPECT_DOUBLE_EQ(json["mean_itl_ms"], 10.0);
}

TEST(report, has_what_was_answered_where_it_is_asked_for) {
  auto r = answered(0.1, 0.5, 5);
  r.text = "an answer";
  run_settings settings;
  EXPECT_FALSE(nlohmann::json::parse(report_json(settings, {r}, 1.0)).contains("generated_texts"));
  settings.has_texts = true;
  EXPECT_EQ(nlohmann::json::parse(report_json(settings, {r}, 1.0))["generated_texts"],
            nlohmann::json::array({"an answer"}));
}

TEST(report, has_the_settings_of_the_run) {
  auto of = [](const run_settings& settings) {
    return nlohmann::json::parse(report_json(settings, {answered(0.1, 0.5, 5)}, 1.0));
  };
  auto asked = of({"20260131-235959", "tiny", 2.5, 0.5, 8, {}});
  EXPECT_EQ(asked["date"], "20260131-235959");
  EXPECT_EQ(asked["backend"], "openai");
  EXPECT_EQ(asked["model_id"], "tiny");
  EXPECT_EQ(asked["num_prompts"], 1);
  EXPECT_EQ(asked["request_rate"], 2.5);
  EXPECT_EQ(asked["burstiness"], 0.5);
  EXPECT_EQ(asked["max_concurrency"], 8);
  EXPECT_EQ(asked["request_goodput"], nullptr);
  EXPECT_TRUE(asked.contains("mean_client_queue_time_ms"));
  EXPECT_TRUE(asked.contains("p99_e2el_including_client_queue_ms"));
  auto defaults = of({});
  EXPECT_EQ(defaults["request_rate"], "inf");
  EXPECT_EQ(defaults["max_concurrency"], nullptr);
  EXPECT_EQ(defaults["model_id"], "served");
  EXPECT_FALSE(defaults.contains("mean_client_queue_time_ms"));
}

TEST(report, lists_every_request_in_its_order) {
  request_record first = answered(0.1, 0.5, 5);
  request_record second;
  second.error = "status 429";
  second.input_tokens = 3;
  second.output_tokens = 1; // before it failed
  second.start = 0.25;
  second.queued = 0.125;
  auto json = nlohmann::json::parse(report_json({}, {first, second}, 1.0));
  EXPECT_EQ(json["input_lens"], nlohmann::json::parse("[10, 3]"));
  EXPECT_EQ(json["output_lens"], nlohmann::json::parse("[5, 0]"));
  EXPECT_EQ(json["ttfts"], nlohmann::json::parse("[0.1, 0.0]"));
  EXPECT_EQ(json["itls"], nlohmann::json::parse("[[0.01], []]"));
  EXPECT_EQ(json["latencies"], nlohmann::json::parse("[0.5, 0.0]"));
  EXPECT_EQ(json["start_times"], nlohmann::json::parse("[0.0, 0.25]"));
  EXPECT_EQ(json["queue_times"], nlohmann::json::parse("[0.0, 0.125]"));
  EXPECT_EQ(json["errors"], nlohmann::json::parse(R"(["", "status 429"])"));
}

TEST(report, counts_requests_that_reached_every_goal) {
  run_settings settings;
  settings.goodput = {{"ttft", 200.0}, {"tpot", 100.0}};
  request_record failed;
  failed.error = "refused";
  // TTFT 100 and 300 ms, TPOT 100 and 100 ms.
  auto json = nlohmann::json::parse(
      report_json(settings, {answered(0.1, 0.5, 5), answered(0.3, 1.3, 11), failed}, 4.0));
  EXPECT_DOUBLE_EQ(json["request_goodput"], 0.25);
  EXPECT_EQ(parse_goodput("e2el:1500", "--goodput"), (std::pair<std::string, double>("e2el", 1500.0)));
  for (const char* bad : {"", "ttft", "ttft:", "itl:5", "ttft:fast", "ttft:-1", "ttft:nan"})
    EXPECT_THROW(parse_goodput(bad, "--goodput"), option_error) << bad;
}

TEST(report, tells_peaks_of_tokens_and_of_requests) {
  request_record early = answered(0.25, 1.0, 4);
  early.gaps = {0.25, 0.25}; // tokens at 0.25, 0.5 and 0.75 s
  request_record overlapping = answered(0.25, 1.0, 2);
  overlapping.start = 0.5;
  overlapping.gaps = {0.5}; // at 0.75 and 1.25 s
  request_record behind = answered(0.25, 1.0, 1);
  behind.start = 1.0; // when the first ends
  behind.gaps = {};
  auto json = nlohmann::json::parse(report_json({}, {early, overlapping, behind}, 2.0));
  EXPECT_EQ(json["max_output_tokens_per_s"], 4.0);
  EXPECT_EQ(json["max_concurrent_requests"], 2);
}

TEST(report, of_failures_alone_has_no_latencies) {
  request_record failed;
  failed.error = "refused";
  auto json = nlohmann::json::parse(report_json({}, {failed}, 1.0));
  EXPECT_EQ(json["completed"], 0);
  EXPECT_FALSE(json.contains("mean_ttft_ms"));
  EXPECT_EQ(json["max_concurrent_requests"], 0);
}

TEST(percentile, interpolates_between_ranks) {
  EXPECT_DOUBLE_EQ(percentile({1, 2, 3, 4}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile({1, 2, 3, 4}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({1, 2, 3, 4}, 100), 4);
  EXPECT_DOUBLE_EQ(percentile({7}, 99), 7);
}

} // namespace
} // namespace troupe::load
