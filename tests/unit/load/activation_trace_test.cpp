#include "load/activation_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace troupe::load {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// A gateway's answer: two layers of experts around a dense one.
nlohmann::json page_of(std::uint64_t tokens, const std::vector<nlohmann::json>& windows) {
  return {{"format", "troupe-history 1"},
          {"fingerprint", "model"},
          {"layer_experts", {4, 0, 3}},
          {"half_life_ms", 600000},
          {"age_ms", 1000},
          {"tokens", tokens},
          {"rows", 4 * tokens},
          {"decayed", {{0, 0, 0, 0}, nlohmann::json::array(), {0, 0, 0}}},
          {"windows", windows}};
}

nlohmann::json window_of(const std::string& worker, std::uint64_t sequence, std::uint64_t tokens) {
  return {{"worker", worker}, {"sequence", sequence},
          {"at_ms", 7},       {"duration_ms", 5004},
          {"tokens", tokens}, {"rows", {{1, tokens, 3, tokens}, nlohmann::json::array(), {0, 2 * tokens}}}};
}

pages::history_page parsed(std::uint64_t tokens, const std::vector<nlohmann::json>& windows) {
  return pages::decode_history(page_of(tokens, windows).dump());
}

TEST(trace_recorder, takes_each_window_once_and_none_from_before) {
  trace_recorder recorder(parsed(30, {window_of("a1", 1, 10), window_of("b2", 7, 20)}));
  const auto page = parsed(
      75, {window_of("a1", 1, 10), window_of("b2", 7, 20), window_of("b2", 8, 5), window_of("c3", 1, 40)});
  EXPECT_FALSE(recorder.is_short(page));
  const auto fresh = recorder.take(page);
  ASSERT_EQ(fresh.size(), 2U);
  EXPECT_EQ(fresh[0].worker, "b2");
  EXPECT_EQ(fresh[0].sequence, 8U);
  EXPECT_EQ(fresh[1].worker, "c3");
  EXPECT_EQ(recorder.counted(), 45U);
  EXPECT_TRUE(recorder.take(page).empty());
  EXPECT_EQ(recorder.counted(), 45U);
  EXPECT_EQ(recorder.missed(), 0U);
}

TEST(trace_recorder, knows_what_a_page_leaves_out) {
  trace_recorder recorder(parsed(0, {}));
  const auto few = parsed(30, {window_of("a1", 3, 10)});
  EXPECT_TRUE(recorder.is_short(few));
  EXPECT_FALSE(recorder.is_short(parsed(30, {window_of("a1", 2, 20), window_of("a1", 3, 10)})));
  EXPECT_EQ(recorder.take(few).size(), 1U);
  EXPECT_EQ(recorder.missed(), 20U);
  // Missed windows are counted once: the next page is not short because of them.
  EXPECT_FALSE(recorder.is_short(parsed(34, {window_of("a1", 4, 4)})));
}

TEST(trace_recorder, ends_where_the_history_is_another) {
  trace_recorder recorder(parsed(30, {window_of("a1", 1, 30)}));
  recorder.take(parsed(40, {window_of("a1", 2, 10)}));
  EXPECT_THAT([&] { recorder.take(parsed(39, {})); },
              ThrowsMessage<std::runtime_error>(HasSubstr("has counted 39 tokens, fewer than before")));
  auto other = parsed(50, {});
  other.fingerprint = "another";
  EXPECT_THAT([&] { recorder.take(other); },
              ThrowsMessage<std::runtime_error>(HasSubstr("is of model another now, and was of model")));
}

TEST(trace, has_a_line_for_the_load_and_one_for_each_window) {
  const auto page = parsed(10, {window_of("a1", 2, 10)});
  const auto header = trace_header("mine", "a batch", page, {{"seed", 3}});
  EXPECT_EQ(
      header,
      R"({"format":"troupe-trace 1","trace":"mine","window":"a batch","fingerprint":"model","layers":[0,2],"seed":3})"
      "\n");
  EXPECT_EQ(
      trace_line(page.windows[0], page.layer_experts, "code", 1.2345678),
      R"({"rows":[[0,10,0,10],[20,0,0]],"domain":"code","tokens":10,"at_s":1.235,"duration_s":5.004,"worker":"a1","sequence":2})"
      "\n");
}

TEST(trace, says_of_how_many_micro_batches_a_window_is_where_that_is_known) {
  auto window = window_of("a1", 2, 10);
  window["micro_batches"] = 3;
  const auto page = parsed(10, {window});
  EXPECT_EQ(nlohmann::json::parse(trace_line(page.windows.at(0), page.layer_experts, "code", 0))["steps"], 3);
}

} // namespace
} // namespace troupe::load
