// A process's reports during its start, and how it stops then.
#include "services/startup/startup.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "services/options/role_options.hpp"
#include "services/startup/load_progress.hpp"
#include "services/startup/stop_signal.hpp"

namespace troupe {
namespace {

using namespace std::chrono_literals;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

/// The whole answer to a GET.
std::string ask_page(std::uint16_t port, const std::string& path) {
  const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
    const std::string request = "GET " + path + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(::write(socket, request.data(), request.size()), static_cast<ssize_t>(request.size()));
    char part[4096];
    for (ssize_t count = 0; (count = ::read(socket, part, sizeof part)) > 0;)
      answer.append(part, static_cast<std::size_t>(count));
  }
  ::close(socket);
  return answer;
}

class load_progress_test : public testing::Test {
 protected:
  load_progress::clock::time_point now_ = load_progress::clock::now();
  load_progress load_{process_log("test"), [this] { return now_; }};
};

TEST_F(load_progress_test, says_percent_bytes_and_the_rate_since_it_began) {
  EXPECT_EQ(load_.text(), "");
  load_.reached(5, 10); // before any phase has begun
  EXPECT_EQ(load_.text(), "");
  load_.begin("packing-experts", "packing weights");
  EXPECT_EQ(load_.text(), "packing weights");
  load_.reached(30'000'000'000, 90'000'000'000); // there from an earlier start
  now_ += 10s;
  load_.reached(33'000'000'000, 90'000'000'000);
  EXPECT_EQ(load_.text(), "packing weights: 36 %, 33000 of 90000 MB, 300 MB/s");
  load_.begin("packing-experts", "packing weights"); // the same phase again: no new beginning
  EXPECT_THAT(load_.text(), EndsWith("300 MB/s"));
  EXPECT_EQ(load_.bytes().bytes, 33'000'000'000U);
  EXPECT_EQ(load_.bytes().total, 90'000'000'000U);
  load_.begin("waiting-for-cache", "another process packs");
  load_.reached(7'000'000, 0);
  EXPECT_EQ(load_.text(), "another process packs: 7 MB");
  load_.end();
  EXPECT_EQ(load_.text(), "");
}

TEST_F(load_progress_test, writes_a_line_after_a_second_then_every_ten_and_at_the_end) {
  const auto lines = [](const std::string& log) { return std::count(log.begin(), log.end(), '\n'); };
  testing::internal::CaptureStderr();
  load_.begin("packing-experts", "packing weights");
  for (std::uint64_t second = 0; second < 25; ++second) {
    load_.reached(second * 1'000'000, 25'000'000);
    now_ += 1s;
  }
  load_.end();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(lines(log), 4) << log; // at 1, 11 and 21 s, and the end
  EXPECT_THAT(log, HasSubstr("packing-experts: packing weights: 4 %, 1 of 25 MB"));
  testing::internal::CaptureStderr();
  load_.begin("packing-experts", "packing weights");
  load_.reached(25'000'000, 25'000'000);
  load_.end();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "") << "it was over at once";
}

cluster_options with_metrics() {
  cluster_options cluster;
  cluster.metrics_port = 0;
  return cluster;
}

std::uint16_t port_of(const startup& start) {
  return static_cast<std::uint16_t>(std::stoi(start.endpoint().substr(start.endpoint().rfind(':') + 1)));
}

TEST(startup, is_alive_and_not_ready_until_it_is_done) {
  startup start(with_metrics(), "troupe_", "m", process_log("test"));
  const auto port = port_of(start);
  EXPECT_THAT(ask_page(port, "/health"),
              testing::AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\nloading: starting\n")));
  EXPECT_THAT(ask_page(port, "/ready"),
              testing::AllOf(StartsWith("HTTP/1.1 503"), EndsWith("\r\n\r\nnot ready: starting\n")));
  start.load()->begin("packing-experts", "packing weights");
  EXPECT_THAT(ask_page(port, "/health"),
              testing::AllOf(StartsWith("HTTP/1.1 200"), EndsWith("\r\n\r\nloading: packing weights\n")));
  EXPECT_THAT(
      ask_page(port, "/ready"),
      testing::AllOf(StartsWith("HTTP/1.1 503"), EndsWith("\r\n\r\nnot ready: loading: packing weights\n")));
  EXPECT_THAT(ask_page(port, "/metrics"), HasSubstr("process_threads"));
  std::string why_not = "looks for a scheduler";
  start.done({.why_not_ready = [&why_not] { return why_not; }});
  EXPECT_THAT(ask_page(port, "/ready"), EndsWith("\r\n\r\nnot ready: looks for a scheduler\n"));
  why_not.clear();
  EXPECT_THAT(ask_page(port, "/ready"), StartsWith("HTTP/1.1 200"))
      << "what is loaded behind the start is the worker's";
  EXPECT_THAT(ask_page(port, "/health"), EndsWith("\r\n\r\nloading: packing weights\n"));
  start.load()->end();
  EXPECT_THAT(ask_page(port, "/health"), EndsWith("\r\n\r\nok\n"));
}

/// A process that gets a stop signal, and then does `then`.
/// @returns how it ended
template <class Then>
int status_of_told(const Then& then) {
  const auto child = ::fork();
  if (child == 0) {
    const stop_signal signals;
    ::kill(::getpid(), SIGTERM);
    then();
    ::_exit(7);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(stop_while_starting, ends_a_process_that_is_busy_and_leaves_one_that_sees_to_it) {
  const int stuck = status_of_told([] {
    const stop_while_starting starting(process_log("test"));
    for (;;)
      ::pause();
  });
  EXPECT_TRUE(WIFEXITED(stuck));
  EXPECT_EQ(WEXITSTATUS(stuck), 0);
  const int done = status_of_told([] { const stop_while_starting starting(process_log("test")); });
  EXPECT_TRUE(WIFEXITED(done));
  EXPECT_EQ(WEXITSTATUS(done), 7) << "its start was over";
}

} // namespace
} // namespace troupe
