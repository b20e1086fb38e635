// The events of several processes are converted to one clock: a shared one, or by their messages.
#include <gtest/gtest.h>

#include "services/timeline/trace_clocks.hpp"

namespace troupe {
namespace {

using timeline::event;
using timeline::event_kind;

constexpr std::uint64_t us = 1000;
constexpr std::uint64_t ms = 1000 * us;

trace_log log_of(const std::string& name, const std::string& clock) {
  trace_log log;
  log.process = {name, 1, "host", clock, 50 * ms, 1000 * ms};
  return log;
}

void add(trace_log& log, event_kind kind, std::uint64_t begin, std::uint64_t end,
         std::array<std::uint64_t, 8> args, std::uint64_t id = 1) {
  log.events.push_back(
      {{.kind = kind, .begin_ns = begin, .duration_ns = end - begin, .id = id, .args = args}, 1, {}});
}

/// A gateway, a scheduler, an attention worker and an expert worker, each with a clock of its own, and the
/// messages between them, which take 10 us.
std::vector<trace_log> four_machines(std::uint64_t scheduler, std::uint64_t attention, std::uint64_t expert) {
  std::vector<trace_log> logs{log_of("gateway-0", "a"), log_of("scheduler-0", "b"),
                              log_of("attention-0", "c"), log_of("expert-0", "d")};
  const std::uint64_t at = 100 * ms;
  add(logs[0], event_kind::admission, at, at + 30 * us, {7, 0});
  add(logs[1], event_kind::queue, at + 10 * us + scheduler, at + 20 * us + scheduler, {7, 0});
  add(logs[0], event_kind::submit, at + 40 * us, at + 41 * us, {7, 0, 3});
  add(logs[2], event_kind::accept_sequence, at + 50 * us + attention, at + 51 * us + attention, {7, 0});
  add(logs[2], event_kind::token_sent, at + 200 * us + attention, at + 201 * us + attention, {7, 0, 0});
  add(logs[0], event_kind::token_arrived, at + 210 * us, at + 211 * us, {7, 0, 0, 1});
  add(logs[2], event_kind::expert_batch, at + 100 * us + attention, at + 150 * us + attention,
      {9, 3, at + 110 * us + expert, at + 140 * us + expert}, 77);
  add(logs[3], event_kind::host_batch, at + 110 * us + expert, at + 140 * us + expert, {0, 1, 0, 0, 1}, 77);
  return logs;
}

TEST(trace_clocks, are_measured_over_processes_in_between) {
  const auto logs = four_machines(5 * ms, 70 * ms, 400 * ms);
  const auto clocks = common_clocks(logs, clock_source::automatic);
  EXPECT_EQ(clocks[0].how, "reference");
  const std::vector<std::uint64_t> ahead{0, 5 * ms, 70 * ms, 400 * ms};
  for (std::size_t i = 0; i < logs.size(); ++i) {
    EXPECT_EQ(clocks[i].common(100 * ms + ahead[i]), static_cast<std::int64_t>(100 * ms))
        << logs[i].process.name;
    EXPECT_EQ(clocks[i].offset_ns, static_cast<std::int64_t>(ahead[i])) << logs[i].process.name;
    if (i > 0)
      EXPECT_EQ(clocks[i].how, "measured");
  }
  EXPECT_EQ(clocks[3].error_ns, static_cast<std::int64_t>(20 * us)); // of both steps
}

TEST(trace_clocks, are_not_measured_where_they_are_shared) {
  auto logs = four_machines(0, 0, 0);
  for (auto& log : logs)
    log.process.clock = "same";
  for (const auto& clock : common_clocks(logs, clock_source::automatic))
    EXPECT_EQ(clock.common(123), 123);
  EXPECT_EQ(common_clocks(logs, clock_source::automatic)[2].how, "shared");
  EXPECT_EQ(common_clocks(logs, clock_source::measured)[2].how, "measured");
}

TEST(trace_clocks, are_measured_where_messages_show_that_they_are_not_the_same) {
  auto logs = four_machines(0, 70 * ms, 70 * ms);
  for (auto& log : logs)
    log.process.clock = "same";
  const auto clocks = common_clocks(logs, clock_source::automatic);
  EXPECT_EQ(clocks[2].common(170 * ms), static_cast<std::int64_t>(100 * ms));
}

TEST(trace_clocks, go_by_the_wall_clock_where_no_message_leads) {
  std::vector<trace_log> logs{log_of("gateway-0", "a"), log_of("expert-0", "b")};
  logs[1].process.steady_ns = 450 * ms;
  const auto clocks = common_clocks(logs, clock_source::automatic);
  EXPECT_EQ(clocks[1].how, "wall clock");
  EXPECT_EQ(clocks[1].common(450 * ms), static_cast<std::int64_t>(50 * ms));
}

} // namespace
} // namespace troupe
