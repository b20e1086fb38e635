// A process's events are in its file, up to its size; a fault of the file ends only the tracing.
#include <filesystem>
#include <fstream>
#include <thread>

#include <unistd.h>

#include <gtest/gtest.h>

#include "actors/timeline/timeline.hpp"
#include "services/options/option_parser.hpp"
#include "services/timeline/trace_reader.hpp"
#include "services/timeline/trace_writer.hpp"

namespace troupe {
namespace {

namespace fs = std::filesystem;
using timeline::event_kind;

class trace_writer_test : public ::testing::Test {
 protected:
  trace_writer_test() : dir_(fs::path(::testing::TempDir()) / ("trace-" + std::to_string(getpid()))) {
    fs::remove_all(dir_);
  }

  ~trace_writer_test() override { fs::remove_all(dir_); }

  trace_options options(double sample = 1) const {
    trace_options result;
    result.dir = dir_.string();
    result.sample = sample;
    return result;
  }

  std::string file(const std::string& name) const { return (dir_ / name).string(); }

  const process_log log_{"expert-1"};
  const fs::path dir_;
};

TEST_F(trace_writer_test, writes_what_each_thread_has_recorded) {
  {
    const trace_writer writer(options(), log_);
    ASSERT_TRUE(timeline::is_on());
    timeline::record({.kind = event_kind::micro_batch, .begin_ns = 5, .duration_ns = 6, .id = 7});
    std::thread other([] {
      timeline::name_request(3, {"my-id", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}, 9);
    });
    other.join();
  }
  EXPECT_FALSE(timeline::is_on());
  const auto read = read_trace(file("expert-1.trace"));
  EXPECT_EQ(read.process.name, "expert-1");
  EXPECT_EQ(read.process.pid, getpid());
  EXPECT_FALSE(read.is_cut);
  ASSERT_EQ(read.events.size(), 2U);
  EXPECT_NE(read.events[0].thread, read.events[1].thread);
  EXPECT_EQ(read.threads.size(), 2U);
  for (const auto& [what, thread, text] : read.events)
    if (what.kind == event_kind::micro_batch) {
      EXPECT_EQ(what.begin_ns, 5U);
      EXPECT_EQ(what.duration_ns, 6U);
      EXPECT_EQ(what.id, 7U);
    } else {
      EXPECT_EQ(text, "my-id");
      EXPECT_EQ(what.args[1], 0x4bf92f3577b34da6U);
      EXPECT_EQ(what.args[3], 0x00f067aa0ba902b7U);
    }
}

TEST_F(trace_writer_test, keeps_the_file_of_a_process_that_was_started_again) {
  for (int i = 0; i < 2; ++i) {
    const trace_writer writer(options(), log_);
    timeline::record({.kind = event_kind::micro_batch, .id = 1});
  }
  EXPECT_EQ(read_traces(dir_.string()).size(), 2U);
  EXPECT_TRUE(fs::exists(file("expert-1.2.trace")));
}

TEST_F(trace_writer_test, makes_no_file_before_it_is_started) {
  {
    const trace_writer writer(options(0), log_);
    EXPECT_FALSE(timeline::is_on());
  }
  EXPECT_TRUE(fs::is_empty(dir_));
  {
    const trace_writer writer(options(0), log_);
    EXPECT_EQ(timeline::start(1), "");
    timeline::record({.kind = event_kind::micro_batch, .id = 1});
  }
  EXPECT_EQ(read_traces(dir_.string()).size(), 1U);
}

TEST_F(trace_writer_test, says_why_it_cannot_start) {
  EXPECT_NE(timeline::start(1), "");
  EXPECT_FALSE(timeline::is_on());
  EXPECT_EQ(timeline::start(0), ""); // to stop is always possible
}

TEST_F(trace_writer_test, stops_at_the_size_that_a_file_may_have) {
  {
    auto few = options();
    few.max_bytes = 4096;
    const trace_writer writer(few, log_);
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (timeline::is_on() && std::chrono::steady_clock::now() < deadline) {
      timeline::record({.kind = event_kind::micro_batch, .id = 1});
      std::this_thread::yield();
    }
    EXPECT_FALSE(timeline::is_on());
    EXPECT_NE(timeline::start(1), "");
  }
  EXPECT_LE(fs::file_size(file("expert-1.trace")), 4096U + sizeof(trace_chunk_head));
  EXPECT_TRUE(read_trace(file("expert-1.trace")).is_full);
}

TEST_F(trace_writer_test, ends_the_tracing_alone_where_the_file_cannot_be_written) {
  // A folder in which nothing can be created represents a full disk.
  {
    const trace_writer writer(options(), log_);
    fs::remove_all(dir_);
    timeline::record({.kind = event_kind::micro_batch, .id = 1});
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
    while (timeline::is_on() && std::chrono::steady_clock::now() < deadline)
      std::this_thread::yield();
    EXPECT_FALSE(timeline::is_on());
    EXPECT_NE(timeline::start(1).find("cannot make"), std::string::npos);
    timeline::record({.kind = event_kind::micro_batch, .id = 1}); // does no harm
  }
}

TEST_F(trace_writer_test, refuses_a_folder_that_cannot_be_made) {
  std::ofstream(dir_.string() + "-file") << "x";
  auto wrong = options();
  wrong.dir = dir_.string() + "-file/below";
  EXPECT_THROW(trace_writer(wrong, log_), option_error);
  fs::remove(dir_.string() + "-file");
}

TEST_F(trace_writer_test, leaves_a_file_that_can_be_read_up_to_where_it_was_cut) {
  {
    const trace_writer writer(options(), log_);
    for (std::uint64_t i = 0; i < 10; ++i)
      timeline::record({.kind = event_kind::micro_batch, .id = i});
  }
  fs::resize_file(file("expert-1.trace"), fs::file_size(file("expert-1.trace")) - 50);
  const auto read = read_trace(file("expert-1.trace"));
  EXPECT_TRUE(read.is_cut);
  EXPECT_EQ(read.events.size(), 9U);
}

TEST_F(trace_writer_test, tells_what_is_no_trace) {
  fs::create_directories(dir_);
  EXPECT_THROW(read_traces(dir_.string()), std::runtime_error);
  std::ofstream(file("other.trace")) << "some other file that is no trace";
  try {
    read_traces(dir_.string());
    ADD_FAILURE();
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("other.trace: it is no trace"), std::string::npos)
        << error.what();
  }
}

} // namespace
} // namespace troupe
