// Tokens beside weights on one connection of two processes: how long tokens take while nothing else travels,
// and while the same peer sends weights as fast as it can.
//
//   lanes_bench lanes|one-lane [--rounds N] [--weights-mb N] [--message-mb N] [--trips N] [--compute-us N]
//
// A token is `trips` round trips of an expert batch of 16 KiB, each computed for `compute-us`. Each round is
// one undisturbed run and one with weights, of the same number of tokens at least. One line of JSON at the
// end; lanes_bench.py compares both kinds.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/protocol/transport_fixture.hpp"

namespace troupe::test {
namespace {

using clock_type = std::chrono::steady_clock;

struct settings {
  bool lanes = true;
  int rounds = 5;
  std::uint64_t weights_mb = 500;
  std::uint64_t message_mb = 64;
  int trips = 16;
  long compute_us = 200;
};

using expert_actor = caf::typed_actor<
    // An expert batch, computed.
    caf::replies_to<payload>::with<payload>,
    // A message with N bytes of weights.
    caf::replies_to<caf::get_atom, std::uint64_t>::with<batch>>;

transport_options options_for(const settings& how) {
  auto result = loopback_options();
  if (how.lanes)
    result.is_bulk = [](const caf::message& content) {
      return content.match_element<batch>(0) || content.match_element<caf::get_atom>(0);
    };
  return result;
}

int serve(const settings& how, int endpoint_to, int ends_with) {
  node here{options_for(how)};
  const auto expert = here.system.spawn([&how]() -> expert_actor::behavior_type {
    return {[&how](payload& x) {
              const auto end = clock_type::now() + std::chrono::microseconds{how.compute_us};
              while (clock_type::now() < end) {
              }
              return std::move(x);
            },
            // The same bytes every time: only sending them costs.
            [held = std::make_shared<payload>()](caf::get_atom, std::uint64_t num_bytes) {
              if (held->size() != num_bytes)
                *held = patterned(num_bytes, 1);
              return batch{1, "", {*held}};
            }};
  });
  here.net->publish("server", expert);
  const auto line = here.net->endpoint() + "\n";
  if (::write(endpoint_to, line.data(), line.size()) < 0)
    return 1;
  char c = 0;
  while (::read(ends_with, &c, 1) > 0) {
  }
  caf::anon_send_exit(expert, caf::exit_reason::user_shutdown);
  return 0;
}

double milliseconds(clock_type::duration x) {
  return std::chrono::duration<double, std::milli>(x).count();
}

// Times in milliseconds of at least `count` tokens, until `done`.
template <class Done>
std::vector<double> tokens(node& here, const expert_actor& expert, const settings& how, std::size_t count,
                           Done done) {
  std::vector<double> result;
  const auto rows = patterned(16'384, 1);
  caf::scoped_actor self{here.system};
  while (result.size() < count && !done()) {
    const auto begin = clock_type::now();
    for (int i = 0; i < how.trips; ++i)
      self->request(expert, patience, rows).receive([](payload&) {}, [](caf::error&) { std::abort(); });
    result.push_back(milliseconds(clock_type::now() - begin));
  }
  return result;
}

double quantile(std::vector<double> x, double q) {
  std::sort(x.begin(), x.end());
  return x.empty() ? 0 : x[static_cast<std::size_t>(q * static_cast<double>(x.size() - 1))];
}

// Fetches `left` bytes of weights, one message after another.
void fetch_rest(caf::event_based_actor* self, const settings& how, const expert_actor& expert,
                std::uint64_t left, std::atomic<bool>& over) {
  if (left == 0) {
    over = true;
    return;
  }
  const auto now = std::min(left, how.message_mb << 20);
  self->request(expert, patience, caf::get_atom_v, now)
      .then([self, &how, expert, left, now,
             &over](const batch&) { fetch_rest(self, how, expert, left - now, over); },
            [](const caf::error&) { std::abort(); });
}

void measure(const settings& how, const std::string& endpoint) {
  node here{options_for(how)};
  const auto found = here.resolve(endpoint, "server");
  if (!found)
    std::abort();
  const auto expert = caf::actor_cast<expert_actor>(*found);
  std::vector<double> quiet;
  std::vector<double> disturbed;
  double weights_ms = 0;
  const auto never = [] { return false; };
  const auto fetch = [&](std::uint64_t total, std::atomic<bool>& over) {
    here.system.spawn([&how, expert, total, &over](caf::event_based_actor* self) {
      fetch_rest(self, how, expert, total, over);
    });
  };
  tokens(here, expert, how, 50, never);
  std::atomic<bool> warm{false};
  fetch(how.message_mb << 20, warm);
  if (!eventually([&] { return warm.load(); })) {
    std::fprintf(stderr, "lanes_bench: the first weights have not come\n");
    std::abort();
  }
  for (int round = 0; round < how.rounds; ++round) {
    std::atomic<bool> over{false};
    const auto begin = clock_type::now();
    fetch(how.weights_mb << 20, over);
    const auto beside = tokens(here, expert, how, SIZE_MAX, [&] { return over.load(); });
    weights_ms += milliseconds(clock_type::now() - begin);
    disturbed.insert(disturbed.end(), beside.begin(), beside.end());
    const auto alone = tokens(here, expert, how, std::max<std::size_t>(beside.size(), 20), never);
    quiet.insert(quiet.end(), alone.begin(), alone.end());
  }
  std::printf("{\"kind\":\"%s\",\"tokens\":%zu,\"quiet_p50_ms\":%.3f,\"quiet_p99_ms\":%.3f,"
              "\"beside_p50_ms\":%.3f,\"beside_p99_ms\":%.3f,\"weights_mb_per_s\":%.0f}\n",
              how.lanes ? "lanes" : "one-lane", disturbed.size(), quantile(quiet, 0.5), quantile(quiet, 0.99),
              quantile(disturbed, 0.5), quantile(disturbed, 0.99),
              1000.0 * how.rounds * static_cast<double>(how.weights_mb << 20) / 1e6 / weights_ms);
}

int usage(const char* program) {
  std::fprintf(stderr,
               "usage: %s lanes|one-lane [--rounds N] [--weights-mb N] [--message-mb N] [--trips N] "
               "[--compute-us N]\n",
               program);
  return 2;
}

int run(int argc, char** argv) {
  settings how;
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind != "lanes" && kind != "one-lane")
    return usage(argv[0]);
  how.lanes = kind == "lanes";
  for (int i = 2; i < argc; i += 2) {
    const std::string flag = argv[i];
    const long value = i + 1 < argc ? std::atol(argv[i + 1]) : 0;
    if (value < 1)
      return usage(argv[0]);
    if (flag == "--rounds")
      how.rounds = static_cast<int>(value);
    else if (flag == "--weights-mb")
      how.weights_mb = static_cast<std::uint64_t>(value);
    else if (flag == "--message-mb")
      how.message_mb = static_cast<std::uint64_t>(value);
    else if (flag == "--trips")
      how.trips = static_cast<int>(value);
    else if (flag == "--compute-us")
      how.compute_us = value;
    else
      return usage(argv[0]);
  }
  int endpoint_pipe[2];
  int end_pipe[2];
  if (::pipe(endpoint_pipe) != 0 || ::pipe(end_pipe) != 0)
    return 1;
  // Before any thread exists.
  const auto pid = ::fork();
  if (pid < 0)
    return 1;
  if (pid == 0) {
    ::close(end_pipe[1]);
    std::_Exit(serve(how, endpoint_pipe[1], end_pipe[0]));
  }
  ::close(endpoint_pipe[1]);
  std::string endpoint;
  char c = 0;
  while (::read(endpoint_pipe[0], &c, 1) == 1 && c != '\n')
    endpoint += c;
  measure(how, endpoint);
  std::fflush(stdout);
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  return 0;
}

} // namespace
} // namespace troupe::test

int main(int argc, char** argv) {
  return troupe::test::run(argc, argv);
}
