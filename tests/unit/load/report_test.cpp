#include "load/report.hpp"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::load {
namespace {

request_record answered(double ttft, double latency, unsigned tokens) {
  request_record r;
  r.ok = true;
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
      nlohmann::json::parse(report_json({answered(0.1, 0.5, 5), answered(0.3, 1.3, 11), failed}, 2.0));
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
  EXPECT_EQ(json["errors"]["status 503"], 1);
}

TEST(report, of_failures_alone_has_no_latencies) {
  request_record failed;
  failed.error = "refused";
  auto json = nlohmann::json::parse(report_json({failed}, 1.0));
  EXPECT_EQ(json["completed"], 0);
  EXPECT_FALSE(json.contains("mean_ttft_ms"));
}

TEST(percentile, interpolates_between_ranks) {
  EXPECT_DOUBLE_EQ(percentile({1, 2, 3, 4}, 50), 2.5);
  EXPECT_DOUBLE_EQ(percentile({1, 2, 3, 4}, 0), 1);
  EXPECT_DOUBLE_EQ(percentile({1, 2, 3, 4}, 100), 4);
  EXPECT_DOUBLE_EQ(percentile({7}, 99), 7);
}

} // namespace
} // namespace troupe::load
