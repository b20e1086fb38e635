// The supervisor with real processes: small shell scripts that start, die and refuse to stop.
#include "services/troupe/supervisor.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <fstream>
#include <stdexcept>
#include <thread>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "services/metrics/endpoint.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;

// Children get "--ready-fd N" as their last arguments: $2 of `bash -c SCRIPT name`.
child_spec script(const std::string& name, const std::string& text, std::uint32_t phase = 0) {
  child_spec spec;
  spec.name = name;
  spec.argv = {"/bin/bash", "-c", text, name};
  spec.stop_phase = phase;
  return spec;
}

class supervisor_test : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() / ("troupe-supervisor-" + std::to_string(getpid()));
    std::filesystem::create_directories(dir_);
  }

  void TearDown() override { std::filesystem::remove_all(dir_); }

  nlohmann::json pids() const {
    std::ifstream in(dir_ / "pids.json");
    return nlohmann::json::parse(in);
  }

  supervisor::log_function log() {
    return [this](const std::string& line) { lines_.push_back(line); };
  }

  bool logged(const std::string& text) const {
    return std::any_of(lines_.begin(), lines_.end(),
                       [&](const std::string& line) { return line.find(text) != std::string::npos; });
  }

  std::filesystem::path dir_;
  std::vector<std::string> lines_;
};

TEST_F(supervisor_test, reports_ready_lines_and_keeps_pids_current) {
  supervisor s(dir_, log());
  s.start(script("one-0", "echo 127.0.0.1:7 >&$2; exec sleep 60"));
  EXPECT_EQ(s.wait_ready("one-0", 10s), "127.0.0.1:7");
  s.start(script("two-0", "echo up >&$2; exec sleep 60"));
  s.wait_ready("two-0", 10s);
  auto map = pids();
  ASSERT_EQ(map.size(), 2U);
  EXPECT_EQ(kill(map["one-0"].get<pid_t>(), 0), 0);
  EXPECT_NE(map["one-0"], map["two-0"]);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_EQ(pids().size(), 0U);
  EXPECT_EQ(kill(map["one-0"].get<pid_t>(), 0), -1);
}

/// Starts; once it has been killed and restarted, it ends the test.
child_spec until_restarted(const std::string& name, std::string health_address) {
  child_spec spec = script(name, "echo up >&$2; exec sleep 60");
  spec.health_address = [address = std::move(health_address)](const std::string&) { return address; };
  spec.on_ready = [starts = 0](const std::string&) mutable -> std::vector<std::string> {
    if (++starts == 2)
      kill(getpid(), SIGTERM);
    return {};
  };
  return spec;
}

constexpr probe_limits quick_probes{.interval = 5ms, .patience = 50ms, .failures = 3};

TEST(probe_limits_test, questions_fill_the_time_that_a_child_may_hang) {
  const probe_limits usual = limits_for(30s);
  EXPECT_EQ(usual.interval + usual.patience, 10s);
  EXPECT_EQ(usual.failures, 3U);
  const probe_limits hasty = limits_for(1s);
  EXPECT_EQ(hasty.interval + hasty.patience, 1s);
  EXPECT_EQ(hasty.failures, 1U);
  EXPECT_EQ(limits_for(600s).failures, 60U);
}

TEST_F(supervisor_test, a_child_that_says_it_cannot_work_is_started_again) {
  supervisor s(dir_, log(), probe_limits{.interval = 5ms, .patience = 20s, .failures = 3});
  std::atomic<int> asked{0};
  const metrics::endpoint health{{},
                                 std::make_shared<metrics::registry>(),
                                 {{}, [&asked] {
                                    // Two bad answers are not three in a row.
                                    const int n = ++asked;
                                    return std::string(n == 1 || n == 2 || n > 5 ? "the engine hangs" : "");
                                  }}};
  s.start(until_restarted("expert-0", "127.0.0.1:" + std::to_string(health.port())));
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_GE(asked, 8);
  EXPECT_TRUE(logged("expert-0 hangs and is killed: /health is 503: to be replaced: the engine hangs"));
}

TEST_F(supervisor_test, a_child_that_does_not_answer_its_probes_is_started_again) {
  // The kernel accepts connections, but nothing answers.
  const int silent = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ASSERT_EQ(bind(silent, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(silent, 64), 0);
  ASSERT_EQ(getsockname(silent, reinterpret_cast<sockaddr*>(&address), &size), 0);
  supervisor s(dir_, log(), quick_probes);
  s.start(until_restarted("expert-0", "127.0.0.1:" + std::to_string(ntohs(address.sin_port))));
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_TRUE(logged("expert-0 hangs and is killed: no answer from /health"));
  close(silent);
}

TEST_F(supervisor_test, a_second_signal_ends_all_at_once) {
  supervisor s(dir_, log());
  // The process answers the first signal with a second one instead of ending.
  s.start(
      script("slow-0",
             "trap 'sleep 0.3; kill -TERM $PPID' TERM; sleep 60 >/dev/null 2>&1 & echo up >&$2; wait; wait"));
  s.start(script("next-0", "sleep 60 >/dev/null 2>&1 & echo up >&$2; wait", 1));
  s.wait_ready("slow-0", 10s);
  s.wait_ready("next-0", 10s);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(s.run(1h), 1);
  EXPECT_TRUE(logged("slow-0 is killed: a second signal came"));
  EXPECT_EQ(pids().size(), 0U);
}

TEST_F(supervisor_test, a_signal_that_is_sent_twice_is_one_request) {
  supervisor s(dir_, log());
  // It needs longer than the time to a repeated signal, and ends well.
  s.start(
      script("slow-0",
             "trap 'kill -TERM $PPID; sleep 0.5; exit 0' TERM; echo up >&$2; while :; do sleep 0.01; done"));
  s.wait_ready("slow-0", 10s);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(s.run(1h), 0);
  EXPECT_FALSE(logged("a second signal came"));
}

/// Stops this process at the first line with the text.
supervisor::log_function stop_at(const std::string& text, const supervisor::log_function& log) {
  return [=, stopped = false](const std::string& line) mutable {
    log(line);
    if (!stopped && line.find(text) != std::string::npos) {
      stopped = true;
      kill(getpid(), SIGTERM);
    }
  };
}

TEST_F(supervisor_test, a_child_that_dies_again_and_again_never_ends_the_others) {
  supervisor s(dir_, stop_at("deaths so far: 40", log()), {}, {.first = 1ms, .longest = 4ms});
  s.start(script("well-0", "echo up >&$2; exec sleep 60"));
  s.start(script("ill-0", "echo up >&$2; exit 5"));
  s.wait_ready("well-0", 10s);
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_FALSE(logged("well-0"));
  EXPECT_TRUE(logged("ill-0 ended with status 5; starting it again in 1 ms"));
  EXPECT_TRUE(logged("ill-0 ended with status 5; starting it again in 2 ms, deaths so far: 2"));
  EXPECT_TRUE(logged("ill-0 ended with status 5; starting it again in 4 ms, deaths so far: 40"));
}

TEST_F(supervisor_test, the_only_child_that_does_its_work_does_not_wait_longer_than_requests_do) {
  supervisor s(dir_, stop_at("deaths so far: 9", log()), {},
               {.first = 1ms, .longest = 1h, .longest_alone = 2ms});
  s.start(script("ill-0", "echo up >&$2; exit 5", 1));
  s.start(script("other-0", "echo up >&$2; exec sleep 60", 2));
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_TRUE(logged("starting it again in 2 ms, deaths so far: 9"));
}

TEST_F(supervisor_test, a_child_that_was_ready_for_a_while_is_started_again_at_once) {
  supervisor s(dir_, stop_at("deaths so far: 5", log()), {}, {.first = 1ms, .longest = 1h, .settled = 1ms});
  s.start(script("old-0", "echo up >&$2; sleep 0.05; exit 5"));
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_TRUE(logged("starting it again in 1 ms, deaths so far: 5"));
}

TEST_F(supervisor_test, a_child_that_cannot_be_started_for_now_is_tried_again) {
  rlimit files{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &files), 0);
  supervisor s(dir_,
               [&, tell = log()](const std::string& line) {
                 tell(line);
                 if (line.find("cannot be started") != std::string::npos)
                   setrlimit(RLIMIT_NOFILE, &files);
               },
               {}, {.first = 1ms});
  auto spec = script("one-0", "echo up >&$2; exec sleep 60");
  spec.on_ready = [&, times = 0](const std::string&) mutable -> std::vector<std::string> {
    if (++times == 2)
      kill(getpid(), SIGTERM);
    return {};
  };
  s.start(std::move(spec));
  s.wait_ready("one-0", 10s);
  const auto pid = pids()["one-0"].get<pid_t>();
  rlimit few = files;
  few.rlim_cur = 4; // those that are open stay so
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  kill(pid, SIGKILL);
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_TRUE(logged("one-0 cannot be started: pipe2"));
}

TEST_F(supervisor_test, children_die_with_it_whatever_they_do_at_a_signal) {
  int held[2]; // by the child alone: its end is the child's
  ASSERT_EQ(pipe(held), 0);
  const pid_t parent = fork();
  ASSERT_GE(parent, 0);
  if (parent == 0) {
    close(held[0]);
    supervisor s(dir_, [](const std::string&) {});
    s.start(script("deaf-0", "trap '' TERM INT; echo up >&$2; while :; do sleep 0.01; done"));
    s.wait_ready("deaf-0", 10s);
    kill(getpid(), SIGKILL);
  }
  close(held[1]);
  int status = 0;
  waitpid(parent, &status, 0);
  char nothing = 0;
  EXPECT_EQ(read(held[0], &nothing, 1), 0);
  close(held[0]);
}

TEST_F(supervisor_test, pids_are_written_when_the_disk_takes_them_again) {
  const auto in_the_way = dir_ / "pids.json.new";
  nlohmann::json written;
  supervisor s(dir_, [&, tell = stop_at("pids.json is written again", log())](const std::string& line) {
    tell(line);
    if (line == "pids.json is written again")
      written = pids();
  });
  s.start(script("one-0", "echo up >&$2; exec sleep 60"));
  s.wait_ready("one-0", 10s);
  std::filesystem::create_directory(in_the_way);
  auto next = script("next-0", "echo up >&$2; exec sleep 60");
  next.on_ready = [&](const std::string&) -> std::vector<std::string> {
    EXPECT_FALSE(pids().contains("next-0"));
    std::filesystem::remove(in_the_way);
    return {};
  };
  s.start(std::move(next));
  s.start(script("last-0", "exec sleep 60"));
  auto told = [&] {
    return std::count_if(lines_.begin(), lines_.end(), [](const std::string& line) {
      return line.find("pids.json.new: Is a directory; trying again each second") != std::string::npos;
    });
  };
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_EQ(told(), 1);
  EXPECT_EQ(written.size(), 3U);
}

TEST_F(supervisor_test, passes_sighup_on_to_children_that_read_files_again) {
  supervisor s(dir_, log());
  auto told = (dir_ / "told").string();
  auto reader =
      script("reader-0", "trap 'echo > " + told
                             + "; kill $!' HUP; sleep 60 >/dev/null 2>&1 & echo up >&$2; wait; exit 7");
  reader.reloads = true;
  s.start(std::move(reader));
  s.start(script("other-0", "echo up >&$2; exec sleep 60"));
  s.wait_ready("reader-0", 10s);
  s.wait_ready("other-0", 10s);
  kill(getpid(), SIGHUP);
  std::thread stopper([&, told] {
    while (!std::filesystem::exists(told))
      std::this_thread::yield();
    kill(getpid(), SIGTERM);
  });
  s.run(10s);
  stopper.join();
  EXPECT_FALSE(logged("other-0")); // it lived on: SIGHUP would have ended it
}

// Fails until it has been started `times` times, each time with `failure`.
std::string ready_at_start(int times, const std::string& counter, const std::string& failure) {
  return "echo >> " + counter + "; if [ $(wc -l < " + counter + ") -lt " + std::to_string(times) + " ]; then "
         + failure + "; fi; echo up >&$2; exec sleep 60";
}

TEST_F(supervisor_test, a_child_that_dies_while_it_starts_is_started_again) {
  supervisor s(dir_, log());
  auto counter = (dir_ / "starts").string();
  s.start(script("killed-0", ready_at_start(3, counter, "kill -KILL $$")));
  EXPECT_EQ(s.wait_ready("killed-0", 10s), "up");
  EXPECT_TRUE(logged("killed-0 was killed by signal 9; starting it again"));
}

TEST_F(supervisor_test, others_are_started_again_while_one_is_waited_for) {
  supervisor s(dir_, log());
  auto counter = (dir_ / "starts").string();
  auto mark = (dir_ / "other-is-up").string();
  s.start(script("other-0", ready_at_start(2, counter, "exit 1") + " > " + mark));
  s.start(script("slow-0", "until [ -e " + mark + " ]; do sleep 0.01; done; echo up >&$2; exec sleep 60"));
  EXPECT_EQ(s.wait_ready("slow-0", 10s), "up");
}

TEST_F(supervisor_test, a_child_that_never_gets_ready_is_an_error_that_names_it) {
  supervisor s(dir_, log());
  s.start(script("slow-0", "sleep 60 >/dev/null 2>&1"));
  s.start(script("bad-0", "exit 3"));
  try {
    s.wait_ready("slow-0", 10s);
    FAIL() << "it was ready";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "bad-0 ended before it was ready; starts: 3");
  }
  EXPECT_TRUE(logged("bad-0 ended with status 3"));
}

TEST_F(supervisor_test, a_command_line_that_is_refused_is_not_tried_again) {
  supervisor s(dir_, log());
  s.start(script("bad-0", "exit 2"));
  EXPECT_THROW(s.wait_ready("bad-0", 10s), std::runtime_error);
  EXPECT_FALSE(logged("starting it again"));
}

TEST_F(supervisor_test, told_to_stop_while_children_start_it_stops_them) {
  supervisor s(dir_, log());
  s.start(script("slow-0", "trap 'kill $!; exit 0' TERM; kill -TERM $PPID; sleep 60 >/dev/null 2>&1 & wait"));
  EXPECT_EQ(s.wait_ready("slow-0", 10s), std::nullopt);
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_EQ(pids().size(), 0U);
}

TEST_F(supervisor_test, starts_a_killed_child_again_with_what_it_reported) {
  supervisor s(dir_, log());
  auto spec = script("one-0", "echo \"$*\" >&${@: -1}; exec sleep 60");
  int times = 0;
  std::string second;
  spec.on_ready = [&](const std::string& line) -> std::vector<std::string> {
    if (++times == 2) {
      second = line;
      kill(getpid(), SIGTERM);
    }
    return {"--listen", "127.0.0.1:9"};
  };
  s.start(std::move(spec));
  s.wait_ready("one-0", 10s);
  kill(pids()["one-0"].get<pid_t>(), SIGKILL);
  EXPECT_EQ(s.run(10s), 0);
  EXPECT_EQ(times, 2);
  EXPECT_EQ(second.substr(0, 20), "--listen 127.0.0.1:9");
  EXPECT_TRUE(logged("one-0 was killed by signal 9"));
}

TEST_F(supervisor_test, stops_in_phases_and_kills_what_does_not_obey) {
  auto order = (dir_ / "order").string();
  supervisor s(dir_, log());
  auto trapping = [&](const std::string& name) {
    return "trap 'echo " + name + " >> " + order
           + "; kill $!; exit 0' INT; sleep 60 >/dev/null 2>&1 & echo up >&$2; wait";
  };
  s.start(script("late-0", trapping("late"), 1));
  s.start(script("early-0", trapping("early"), 0));
  s.start(script("deaf-0", "trap '' INT; sleep 60 >/dev/null 2>&1 & echo up >&$2; wait; wait", 2));
  for (const char* name : {"late-0", "early-0", "deaf-0"})
    s.wait_ready(name, 10s);
  kill(getpid(), SIGINT);
  EXPECT_EQ(s.run(1s), 1);
  std::ifstream in(order);
  std::string first;
  std::string then;
  in >> first >> then;
  EXPECT_EQ(first, "early");
  EXPECT_EQ(then, "late");
  EXPECT_TRUE(logged("deaf-0 did not stop in time"));
  EXPECT_EQ(pids().size(), 0U);
}

TEST_F(supervisor_test, says_what_ends_badly_while_stopping) {
  supervisor s(dir_, log());
  s.start(script("good-0", "trap 'kill $!; exit 0' TERM; sleep 60 >/dev/null 2>&1 & echo up >&$2; wait"));
  s.start(script("bad-0", "trap 'kill $!; exit 3' TERM; sleep 60 >/dev/null 2>&1 & echo up >&$2; wait"));
  s.start(
      script("dead-0", "trap 'kill $!; kill -SEGV $$' TERM; sleep 60 >/dev/null 2>&1 & echo up >&$2; wait"));
  for (const char* name : {"good-0", "bad-0", "dead-0"})
    s.wait_ready(name, 10s);
  kill(getpid(), SIGTERM);
  EXPECT_EQ(s.run(10s), 1);
  EXPECT_TRUE(logged("bad-0 ended with status 3 while stopping"));
  EXPECT_TRUE(logged("dead-0 was killed by signal 11 while stopping"));
  EXPECT_FALSE(logged("good-0"));
}

TEST_F(supervisor_test, a_program_that_cannot_be_executed_is_an_error) {
  supervisor s(dir_, log());
  child_spec spec;
  spec.name = "none-0";
  spec.argv = {(dir_ / "absent").string()};
  s.start(spec);
  EXPECT_THROW(s.wait_ready("none-0", 10s), std::runtime_error);
}

} // namespace
} // namespace troupe
