// Log lines for operators, collectors of JSON, and terminals.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "services/log/log_events.hpp"
#include "services/log/log_writer.hpp"
#include "services/log/process_log.hpp"

namespace troupe {
namespace {

using nlohmann::json;

constexpr auto noon = std::chrono::system_clock::time_point{std::chrono::milliseconds{1769860800123}};

std::string text_line(std::string_view text, log_fields fields = {}) {
  return format_log_line(log_format::text, noon, log_level::info, "expert-1", "model-loaded", text, fields);
}

json json_line(std::string_view text, log_fields fields = {}) {
  return json::parse(
      format_log_line(log_format::json, noon, log_level::warning, "expert-1", "model-loaded", text, fields));
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

TEST(process_log_test, a_text_line_has_time_level_process_event_message_and_fields) {
  EXPECT_EQ(text_line("3 of 3 layers", {{"layers", 3}, {"seconds", 1.5}, {"from", "a b"}, {"warm", true}}),
            "2026-01-31T12:00:00.123Z info expert-1 model-loaded: 3 of 3 layers layers=3 seconds=1.5 "
            "from=\"a b\" warm=true\n");
}

TEST(process_log_test, a_json_line_has_typed_members) {
  const json line = json_line("3 \"of\" 3", {{"layers", std::uint32_t{3}}, {"delta", -2}, {"name", "x\ny"}});
  EXPECT_EQ(line, (json{{"time", "2026-01-31T12:00:00.123Z"},
                        {"level", "warning"},
                        {"process", "expert-1"},
                        {"event", "model-loaded"},
                        {"message", "3 \"of\" 3"},
                        {"layers", 3},
                        {"delta", -2},
                        {"name", "x\ny"}}));
}

TEST(process_log_test, nothing_that_a_terminal_obeys_is_written_raw) {
  std::string all;
  for (int c = 1; c < 0x20; ++c)
    all += static_cast<char>(c);
  all += "\x7f\xc2\x9b\xff\xc3";
  all += '\0';
  for (const auto format : {log_format::text, log_format::json}) {
    const std::string line =
        format_log_line(format, noon, log_level::info, "p\x1b[2J", "event", all, {{"field", all}});
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    EXPECT_TRUE(std::all_of(line.begin(), line.end() - 1, [](char c) { return c >= 0x20 && c < 0x7f; }))
        << line;
  }
  EXPECT_EQ(text_line("a\rb\x1b[31mc\xff"),
            "2026-01-31T12:00:00.123Z info expert-1 model-loaded: a\\rb\\u001b[31mc\\xff\n");
  EXPECT_EQ(json_line("a\rb\x1b[31mc\xff")["message"], "a\rb\x1b[31mc\uFFFD");
}

TEST(process_log_test, letters_of_all_languages_stay_as_they_are) {
  EXPECT_NE(text_line("größer 模型 😀").find("größer 模型 😀"), std::string::npos);
  EXPECT_EQ(json_line("größer 模型 😀")["message"], "größer 模型 😀");
}

TEST(process_log_test, a_long_message_is_cut_and_its_fields_stay) {
  for (const std::string& message : {std::string(100'000, 'x'), std::string(100'000, '\x01')}) {
    EXPECT_LE(text_line(message, {{"layers", 3}}).size(), max_log_line_bytes);
    const json line = json_line(message, {{"layers", 3}, {"long", message}});
    EXPECT_EQ(line["layers"], 3);
    EXPECT_TRUE(line["message"].get<std::string>().ends_with("…"));
  }
}

TEST(process_log_test, lines_below_the_level_are_not_written) {
  ::testing::internal::CaptureStderr();
  configure_logs(log_level::warning, log_format::json);
  const process_log log("me");
  log.line("listening", "no");
  log.line("worker-hung", "yes");
  log.line(log_level::warning, "listening", "yes");
  configure_logs(log_level::info, log_format::text);
  const std::string written = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 2);
  EXPECT_EQ(written.find("no\""), std::string::npos);
}

TEST(process_log_test, a_full_pipe_holds_nobody_up_and_lost_lines_are_counted) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const int real = dup(STDERR_FILENO);
  dup2(ends[1], STDERR_FILENO);
  const process_log log("me");
  for (int i = 0; i < 10'000; ++i)
    log.line("listening", std::string(100, 'x'));
  std::vector<char> sink(1 << 20);
  EXPECT_GT(read(ends[0], sink.data(), sink.size()), 0);
  log.line("listening", "again");
  const auto size = read(ends[0], sink.data(), sink.size());
  dup2(real, STDERR_FILENO);
  for (const int fd : {real, ends[0], ends[1]})
    close(fd);
  ASSERT_GT(size, 0);
  const std::string written(sink.data(), static_cast<std::size_t>(size));
  EXPECT_NE(written.find("log-lines-dropped: "), std::string::npos) << written;
  EXPECT_NE(written.find("listening: again"), std::string::npos) << written;
}

TEST(process_log_test, events_are_sorted_and_named_once) {
  const auto events = log_events();
  EXPECT_TRUE(std::adjacent_find(events.begin(), events.end(),
                                 [](const auto& l, const auto& r) { return l.name >= r.name; })
              == events.end());
  EXPECT_EQ(level_of_event("worker-hung"), log_level::error);
  EXPECT_EQ(level_of_event("of nobody"), log_level::info);
}

TEST(process_log_test, the_operators_table_lists_every_event_with_its_level) {
  const std::string page = read_file(std::filesystem::path(TROUPE_SOURCE_DIR) / "docs" / "operations.md");
  for (const auto& event : log_events())
    EXPECT_NE(page.find("| `" + std::string(event.name) + "` | " + to_string(event.level) + " |"),
              std::string::npos)
        << event.name << " " << to_string(event.level);
}

TEST(log_writer_test, a_file_that_was_rotated_is_opened_anew) {
  const auto folder = std::filesystem::path(::testing::TempDir());
  const auto path = folder / "access.log";
  const auto moved = folder / "access.log.1";
  std::filesystem::remove(path);
  {
    log_writer writer(path.string(), process_log("me"));
    writer.write("one\n");
    std::filesystem::rename(path, moved);
    writer.write("two\n");
    writer.reopen();
    while (!std::filesystem::exists(path))
      std::this_thread::yield();
    writer.write("three\n");
  }
  EXPECT_EQ(read_file(moved), "one\ntwo\n");
  EXPECT_EQ(read_file(path), "three\n");
}

TEST(log_writer_test, a_path_that_cannot_be_opened_is_named) {
  try {
    log_writer writer("/nowhere/access.log", process_log("me"));
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("/nowhere/access.log"), std::string::npos);
  }
}

TEST(log_writer_test, a_full_disk_loses_lines_and_says_so) {
  ::testing::internal::CaptureStderr();
  { log_writer("/dev/full", process_log("me")).write("one\n"); }
  const std::string written = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(written.find("access-log: 1 lines for /dev/full are lost: No space left on device"),
            std::string::npos)
      << written;
}

} // namespace
} // namespace troupe
