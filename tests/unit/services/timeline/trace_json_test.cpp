// The merged timeline: nested slices, arrows with two ends, requests by name.
#include <map>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "services/timeline/trace_json.hpp"

namespace troupe {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using timeline::event;
using timeline::event_kind;

trace_log log_of(const std::string& name) {
  trace_log log;
  log.process = {name, 12, "host", "clock", 0, 0};
  log.threads = {{1, "worker"}};
  return log;
}

void add(trace_log& log, event what, std::string text = {}) {
  log.events.push_back({what, 1, std::move(text)});
}

std::vector<trace_log> attention_and_expert() {
  std::vector<trace_log> logs{log_of("attention-0"), log_of("expert-0")};
  add(logs[0], {.kind = event_kind::request_name, .id = 5, .args = {9, 0xab, 0xcd}}, "my-id");
  add(logs[0], {.kind = event_kind::worker_name, .id = 30}, "expert-0");
  add(logs[0], {.kind = event_kind::send_batch,
                .begin_ns = 1000,
                .duration_ns = 100,
                .id = 77,
                .args = {8, 30, 2, 4}});
  add(logs[1],
      {.kind = event_kind::accept_batch, .begin_ns = 2000, .duration_ns = 100, .id = 77, .args = {2, 4}});
  add(logs[1], {.kind = event_kind::answer_batch, .begin_ns = 8000, .duration_ns = 50, .id = 77});
  add(logs[1], {.kind = event_kind::host_batch,
                .begin_ns = 2000,
                .duration_ns = 6000,
                .id = 77,
                .args = {2, 4, 1000, 4000, 1}});
  add(logs[0],
      {.kind = event_kind::take_answer, .begin_ns = 9000, .duration_ns = 100, .id = 77, .args = {8}});
  add(logs[0], {.kind = event_kind::expert_batch,
                .begin_ns = 1050,
                .duration_ns = 7950,
                .id = 77,
                .args = {8, 30, 2000, 8000, 1000, 4000, timeline::packed(2, 4), 1}});
  add(logs[0],
      {.kind = event_kind::micro_batch, .begin_ns = 500, .duration_ns = 9500, .id = 8, .args = {4, 1, 1}});
  add(logs[0],
      {.kind = event_kind::expert_wait, .begin_ns = 950, .duration_ns = 8150, .id = 8, .args = {2, 4}});
  add(logs[0], {.kind = event_kind::iteration,
                .begin_ns = 500,
                .duration_ns = 9500,
                .id = 5,
                .args = {9, 0, 8, 1, 3, 0, 1}});
  return logs;
}

json merged(const std::vector<trace_log>& logs) {
  std::ostringstream out;
  write_trace_json(out, logs, common_clocks(logs, clock_source::automatic));
  return json::parse(out.str());
}

std::vector<json> named(const json& trace, const std::string& name, const std::string& phase) {
  std::vector<json> found;
  for (const auto& line : trace["traceEvents"])
    if (line["name"] == name && line["ph"] == phase)
      found.push_back(line);
  return found;
}

TEST(trace_json, names_processes_and_threads) {
  const auto trace = merged(attention_and_expert());
  const auto processes = named(trace, "process_name", "M");
  ASSERT_EQ(processes.size(), 2U);
  EXPECT_EQ(processes[1]["args"]["name"], "expert-0 (host, pid 12)");
  EXPECT_EQ(named(trace, "thread_name", "M")[0]["args"]["name"], "worker");
  EXPECT_EQ(trace["otherData"]["processes"][1]["process"], "expert-0");
}

TEST(trace_json, leads_an_arrow_from_the_sender_to_the_host_and_back) {
  const auto trace = merged(attention_and_expert());
  std::vector<std::string> phases;
  std::vector<int> processes;
  for (const auto& line : trace["traceEvents"])
    if (line.value("cat", "") == "message") {
      EXPECT_EQ(line["id"], 1);
      phases.push_back(line["ph"]);
      processes.push_back(line["pid"]);
    }
  EXPECT_THAT(phases, ElementsAre("s", "t", "t", "f"));
  EXPECT_THAT(processes, ElementsAre(1, 2, 2, 1));
}

TEST(trace_json, divides_an_expert_batch_into_its_ways_queue_and_computing) {
  const auto trace = merged(attention_and_expert());
  double end = 0.55; // us since the first event
  for (const auto& [name, length] : std::vector<std::pair<std::string, double>>{
           {"way there", 0.95}, {"queue", 1}, {"compute", 4}, {"answer", 1}, {"way back", 1}}) {
    bool is_found = false;
    for (const auto& line : named(trace, name, "b"))
      if (line["pid"] == 1) {
        is_found = true;
        EXPECT_NEAR(line["ts"].get<double>(), end, 1e-6) << name;
      }
    EXPECT_TRUE(is_found) << name;
    end += length;
  }
}

TEST(trace_json, divides_a_batch_also_where_its_host_has_lost_its_last_events) {
  auto logs = attention_and_expert();
  logs[1].events.clear();
  const auto trace = merged(logs);
  const auto way = named(trace, "way there", "b");
  ASSERT_EQ(way.size(), 1U);
  EXPECT_NEAR(way[0]["ts"].get<double>(), 0.55, 1e-6);
  EXPECT_NEAR(named(trace, "queue", "b")[0]["ts"].get<double>(), 0.55 + 0.975, 1e-6); // (7.95 - 6) / 2
  EXPECT_NEAR(named(trace, "way back", "b")[0]["ts"].get<double>(), 0.55 + 7.95 - 0.975, 1e-6);
}

TEST(trace_json, says_for_which_requests_an_expert_batch_is) {
  const auto trace = merged(attention_and_expert());
  const std::string id = "00000000000000ab00000000000000cd";
  const auto accepted = named(trace, "accept expert batch", "X");
  ASSERT_EQ(accepted.size(), 1U);
  EXPECT_EQ(accepted[0]["pid"], 2);
  EXPECT_THAT(accepted[0]["args"]["trace_ids"], ElementsAre(id));
  const auto decoded = named(trace, "decode", "b");
  ASSERT_EQ(decoded.size(), 1U);
  EXPECT_EQ(decoded[0]["args"]["trace_id"], id);
  EXPECT_EQ(decoded[0]["args"]["request_id"], "my-id");
  EXPECT_EQ(named(trace, "expert batch", "b")[0]["args"]["worker"], "expert-0");
}

TEST(trace_json, closes_on_each_track_what_was_opened_last) {
  const auto trace = merged(attention_and_expert());
  std::map<std::string, std::vector<std::string>> open;
  double last = 0;
  for (const auto& line : trace["traceEvents"]) {
    if (line["ph"] == "M")
      continue;
    EXPECT_GE(line["ts"].get<double>(), last);
    last = line["ts"];
    if (line["ph"] != "b" && line["ph"] != "e")
      continue;
    auto& track = open[line["pid"].dump() + line["cat"].dump() + line["id2"].dump()];
    if (line["ph"] == "b") {
      track.push_back(line["name"]);
    } else {
      ASSERT_FALSE(track.empty());
      EXPECT_EQ(track.back(), line["name"]);
      track.pop_back();
    }
  }
  for (const auto& [track, names] : open)
    EXPECT_TRUE(names.empty()) << track;
}

TEST(trace_json, draws_no_arrow_with_one_end) {
  auto logs = attention_and_expert();
  logs.pop_back(); // the host was killed before it wrote anything
  std::erase_if(logs[0].events, [](const auto& entry) { return entry.what.kind == event_kind::take_answer; });
  const auto trace = merged(logs);
  for (const auto& line : trace.at("traceEvents"))
    EXPECT_NE(line.value("cat", ""), "message");
}

TEST(trace_json, keeps_texts_that_are_no_json) {
  auto logs = attention_and_expert();
  add(logs[0], {.kind = event_kind::cluster_event, .begin_ns = 100}, "worker-gone: \"a\"\n\xff");
  EXPECT_EQ(named(merged(logs), "event", "i")[0]["args"]["text"], "worker-gone: \"a\"\n\xef\xbf\xbd");
}

} // namespace
} // namespace troupe
