// What a peer that has stopped reading (SIGSTOP) costs its sender: the memory of a process that goes on
// sending.
//
//   stopped_peer [--window-mb N] [--send-mb N] [--message-kb N]
//
// Requests, half of them in each lane, until `send-mb` have been offered: those that the window has room for
// wait, the others are refused. Prints one line of JSON. Status 1 when the sender has grown by more than both
// lanes' windows and 32 MiB, or when nothing was refused.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {
namespace {

struct settings {
  std::uint64_t window_mb = 128;
  std::uint64_t send_mb = 2048;
  std::uint64_t message_kb = 256;
};

constexpr double slack_mb = 32;

using sink_actor = caf::typed_actor<
    // Urgent.
    caf::replies_to<payload>::with<payload>,
    // Bulk.
    caf::replies_to<batch>::with<batch>>;

transport_options options_for(const settings& how) {
  auto result = loopback_options();
  result.window_bytes = how.window_mb << 20;
  result.is_bulk = [](const caf::message& content) { return content.match_element<batch>(0); };
  return result;
}

double memory_mb() {
  std::ifstream file{"/proc/self/statm"};
  std::uint64_t all = 0;
  std::uint64_t resident = 0;
  file >> all >> resident;
  return static_cast<double>(resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE))) / (1 << 20);
}

int serve(const settings& how, int endpoint_to) {
  node here{options_for(how)};
  const auto sink = here.system.spawn([]() -> sink_actor::behavior_type {
    return {[](payload& x) { return std::move(x); }, [](batch& x) { return std::move(x); }};
  });
  here.net->publish("sink", sink);
  const auto line = here.net->endpoint() + "\n";
  if (::write(endpoint_to, line.data(), line.size()) < 0)
    return 1;
  for (;;)
    ::pause();
}

int measure(const settings& how, const std::string& endpoint, pid_t peer) {
  node here{options_for(how)};
  const auto found = here.resolve(endpoint, "sink");
  if (!found)
    std::abort();
  const auto sink = caf::actor_cast<sink_actor>(*found);
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> failed{0};
  std::atomic<std::uint64_t> offered{0};
  const std::uint64_t bytes = how.message_kb << 10;
  const std::uint64_t count = (how.send_mb << 20) / bytes;
  ::kill(peer, SIGSTOP);
  const double before = memory_mb();
  double most = before;
  const auto sender = here.system.spawn([&](caf::event_based_actor* self) {
    const auto count_error = [&](const caf::error& error) {
      ++(is_transport_error(error, transport_error::window_full) ? refused : failed);
    };
    for (std::uint64_t i = 0; i < count; ++i) {
      if (i % 2 == 0)
        self->request(sink, patience, patterned(bytes, i)).then([](const payload&) {}, count_error);
      else
        self->request(sink, patience, batch{i, "", {patterned(bytes, i)}})
            .then([](const batch&) {}, count_error);
      ++offered;
    }
  });
  const bool is_over = eventually([&] {
    most = std::max(most, memory_mb());
    return offered == count && refused + 2 * (how.window_mb << 20) / bytes + 8 >= count;
  });
  most = std::max(most, memory_mb());
  const double grown = most - before;
  const double limit = 2 * static_cast<double>(how.window_mb) + slack_mb;
  std::printf("{\"window_mb\":%llu,\"lanes\":2,\"offered_mb\":%llu,\"refused_mb\":%.0f,\"failed\":%llu,"
              "\"memory_before_mb\":%.0f,\"grown_mb\":%.0f,\"limit_mb\":%.0f}\n",
              static_cast<unsigned long long>(how.window_mb), static_cast<unsigned long long>(how.send_mb),
              static_cast<double>(refused * bytes) / (1 << 20), static_cast<unsigned long long>(failed),
              before, grown, limit);
  std::fflush(stdout);
  return is_over && failed == 0 && refused > 0 && grown <= limit ? 0 : 1;
}

int run(int argc, char** argv) {
  settings how;
  for (int i = 1; i < argc; i += 2) {
    const std::string flag = argv[i];
    const long value = i + 1 < argc ? std::atol(argv[i + 1]) : 0;
    if (value >= 1 && flag == "--window-mb") {
      how.window_mb = static_cast<std::uint64_t>(value);
    } else if (value >= 1 && flag == "--send-mb") {
      how.send_mb = static_cast<std::uint64_t>(value);
    } else if (value >= 1 && flag == "--message-kb") {
      how.message_kb = static_cast<std::uint64_t>(value);
    } else {
      std::fprintf(stderr, "usage: %s [--window-mb N] [--send-mb N] [--message-kb N]\n", argv[0]);
      return 2;
    }
  }
  int endpoint_pipe[2];
  if (::pipe(endpoint_pipe) != 0)
    return 1;
  // Before any thread exists.
  const auto pid = ::fork();
  if (pid < 0)
    return 1;
  if (pid == 0)
    std::_Exit(serve(how, endpoint_pipe[1]));
  ::close(endpoint_pipe[1]);
  std::string endpoint;
  char c = 0;
  while (::read(endpoint_pipe[0], &c, 1) == 1 && c != '\n')
    endpoint += c;
  const int status = measure(how, endpoint, pid);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  std::_Exit(status); // waiting for the stopped peer's answers would last until they time out
}

} // namespace
} // namespace troupe::test

int main(int argc, char** argv) {
  return troupe::test::run(argc, argv);
}
