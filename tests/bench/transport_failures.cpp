// Measures the transport when peers are killed, stopped or send garbage; prints a table in Markdown.
//
//    transport_failures [--shm] [--rounds N] [--stops N]
//
// The peers are separate processes (transport_node). docs/decisions/0001-transport.md has the result.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <arpa/inet.h>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/protocol/transport_fixture.hpp"
#include "tests/protocol/transport_pump.hpp"

namespace {

using namespace troupe;
using namespace troupe::test;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

double milliseconds_since(clock_type::time_point start) {
  return std::chrono::duration<double, std::milli>(clock_type::now() - start).count();
}

double await_down(caf::scoped_actor& self, clock_type::time_point start) {
  double result = -1;
  self->receive([&](const caf::down_msg&) { result = milliseconds_since(start); }, caf::after(20s) >> [] {});
  return result;
}

bool answers(node& here, const std::string& endpoint) {
  const auto found = here.resolve(endpoint, "server");
  if (!found)
    return false;
  caf::scoped_actor self{here.system};
  bool ok = false;
  self->request(caf::actor_cast<server_actor>(*found), 5s, batch{})
      .receive([&](batch&) { ok = true; }, [](caf::error&) {});
  return ok;
}

void print_times(const char* what, std::vector<double> times) {
  std::sort(times.begin(), times.end());
  std::printf("| %s | %.1f ms median, %.1f ms longest of %zu |\n", what, times[times.size() / 2],
              times.back(), times.size());
}

void kill_rounds(const transport_options& options, const std::vector<std::string>& args, unsigned rounds) {
  node here{options};
  child survivor{args};
  const auto steady = here.server_at(survivor.endpoint());
  std::mt19937 random{7};
  tally all;
  std::vector<double> detection;
  unsigned stalled = 0;
  for (unsigned round = 0; round < rounds; ++round) {
    child victim{args};
    const auto remote = here.server_at(victim.endpoint());
    caf::scoped_actor self{here.system};
    all.stop = false;
    const auto doomed = self->spawn(pump, remote, &all, round);
    const auto other = self->spawn(pump, steady, &all, round + 1000);
    self->monitor(remote);
    std::this_thread::sleep_for(std::chrono::milliseconds{20 + random() % 100});
    const auto start = clock_type::now();
    victim.kill();
    detection.push_back(await_down(self, start));
    self->wait_for(doomed);
    const auto before = all.answered.load();
    const auto limit = clock_type::now() + 5s;
    while (all.answered == before && clock_type::now() < limit)
      std::this_thread::sleep_for(1ms);
    stalled += all.answered == before ? 1 : 0;
    all.stop = true;
    self->wait_for(other);
  }
  print_times("`kill -9` under load: seen after", detection);
  std::printf("| requests sent, answered, failed, corrupt | %lu, %lu, %lu, %lu |\n", all.sent.load(),
              all.answered.load(), all.failed.load(), all.wrong.load());
  std::printf("| requests without answer or error | %lu |\n", all.sent - all.answered - all.failed);
  std::printf("| rounds in which the survivor stalled | %u of %u |\n", stalled, rounds);
  if (options.shared_memory) {
    const auto lines = here.lines();
    const auto left = std::count_if(lines.begin(), lines.end(),
                                    [](const auto& line) { return line.starts_with("queue-stopped"); });
    std::printf("| killed peers that left their queue stopped | %td of %u |\n", left, rounds);
  }
}

void pending_requests(const transport_options& options, const std::vector<std::string>& args) {
  node here{options};
  std::vector<double> times;
  for (int round = 0; round < 5; ++round) {
    child victim{args};
    const auto remote = here.server_at(victim.endpoint());
    caf::scoped_actor self{here.system};
    std::atomic<int> failed{0};
    std::atomic<bool> sent{false};
    const auto client = self->spawn([&](caf::event_based_actor* me) -> caf::behavior {
      for (int i = 0; i < 5; ++i)
        me->request(remote, caf::infinite, caf::pending_atom_v,
                    batch{1, "", {payload::allocate(i == 4 ? 8 << 20 : 4096)}})
            .then([](const batch&) {}, [&](const caf::error&) { ++failed; });
      sent = true;
      return {};
    });
    while (!sent)
      std::this_thread::yield();
    std::this_thread::sleep_for(50ms);
    const auto start = clock_type::now();
    victim.kill();
    self->wait_for(client);
    if (failed == 5)
      times.push_back(milliseconds_since(start));
  }
  print_times("5 requests without deadline pending at `kill -9`: all failed after", times);
}

// Stops peers with large messages under way both ways, until they are declared dead; then resumes them and
// continues over a new connection.
void stopped(const transport_options& options, const std::vector<std::string>& args, unsigned rounds) {
  node here{options};
  std::vector<double> detection;
  unsigned back = 0;
  tally all;
  for (unsigned round = 0; round < rounds; ++round) {
    child peer{args};
    const auto remote = here.server_at(peer.endpoint());
    caf::scoped_actor self{here.system};
    self->monitor(remote);
    all.stop = false;
    auto before = all.answered.load();
    const auto load = self->spawn(pump, remote, &all, round);
    eventually([&] { return all.answered > before + 20; });
    const auto start = clock_type::now();
    peer.stop();
    detection.push_back(await_down(self, start));
    self->wait_for(load);
    peer.resume();
    before = all.answered;
    const auto again = self->spawn(pump, here.server_at(peer.endpoint()), &all, round + 1000);
    back += eventually([&] { return all.answered > before + 20; }) ? 1 : 0;
    all.stop = true;
    self->wait_for(again);
  }
  print_times("SIGSTOP under load: seen after", detection);
  std::printf("| requests sent, answered, failed, corrupt | %lu, %lu, %lu, %lu |\n", all.sent.load(),
              all.answered.load(), all.failed.load(), all.wrong.load());
  std::printf("| after SIGCONT: old connection fenced, a new one works | %u of %u |\n", back, rounds);
}

// Sends raw bytes to a port and leaves.
void send_bytes(std::uint16_t port, const std::string& bytes) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0) [[maybe_unused]]
    const auto sent = send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  std::this_thread::sleep_for(100ms);
  close(fd);
}

std::vector<std::pair<const char*, std::string>> garbage() {
  std::string noise(1 << 16, '\0');
  std::mt19937 random{3};
  for (auto& c : noise)
    c = static_cast<char>(random());
  // UCT_TCP_MAGIC_NUMBER, 0xCAFEBABE12345678, of UCX's TCP transport.
  const std::string magic{"\x78\x56\x34\x12\xBE\xBA\xFE\xCA", 8};
  return {{"64 zero bytes", std::string(64, '\0')},
          {"an HTTP request", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"},
          {"64 KiB of noise", noise},
          {"UCX's magic and noise", magic + noise.substr(0, 4096)},
          {"nothing", ""}};
}

void stray_bytes(const transport_options& options, const std::vector<std::string>& args) {
  for (const auto& [what, bytes] : garbage()) {
    node here{options};
    child peer{args};
    const auto port =
        static_cast<std::uint16_t>(std::stoul(peer.endpoint().substr(peer.endpoint().rfind(':') + 1)));
    const bool before = answers(here, peer.endpoint());
    send_bytes(port, bytes);
    std::printf("| %s on the rendezvous port | %s |\n", what,
                before && answers(here, peer.endpoint()) ? "survives" : "DIES");
  }
  for (const auto& [what, bytes] : garbage()) {
    node here{options};
    child peer{args};
    const bool before = answers(here, peer.endpoint());
    caf::scoped_actor self{here.system};
    auto ports = peer.listening_ports();
    std::erase_if(ports, [&](auto port) { return peer.endpoint().ends_with(":" + std::to_string(port)); });
    for (const auto port : ports)
      send_bytes(port, bytes);
    std::printf("| %s on %zu data port(s) | %s |\n", what, ports.size(),
                before && answers(here, peer.endpoint()) ? "survives" : "the process dies, seen as a death");
  }
}

} // namespace

int main(int argc, char** argv) {
  unsigned rounds = 20;
  unsigned stops = 5;
  auto options = loopback_options();
  options.silence = transport_options{}.silence;
  std::vector<std::string> args;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--shm") {
      options.shared_memory = true;
      args.push_back("--shm");
    } else if (flag == "--rounds" && i + 1 < argc) {
      rounds = static_cast<unsigned>(std::stoul(argv[++i]));
    } else if (flag == "--stops" && i + 1 < argc) {
      stops = static_cast<unsigned>(std::stoul(argv[++i]));
    }
  }
  std::printf("| %s | |\n|---|---|\n", options.shared_memory ? "POSIX shared memory" : "TCP");
  if (rounds > 0)
    kill_rounds(options, args, rounds);
  pending_requests(options, args);
  if (stops > 0)
    stopped(options, args, stops);
  stray_bytes(options, args);
  return 0;
}
