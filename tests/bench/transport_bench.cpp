// Request and response of an expert batch between two processes on one host, by payload size: the transport
// over TCP and over shared memory, and CAF's own BASP.
//
//   transport_bench tcp|shm|basp [--milliseconds N] [--sizes A,B,...] [--in-flight A,B,...]
//
// One line of JSON per payload size and requests in flight. transport_bench.py alternates the three and
// compares.

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/io/middleman.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "actors/transport/caf/transport.hpp"

extern char** environ;

namespace {

using namespace std::chrono_literals;

/// An expert batch as the wire sees it: ids, a row table, activations.
struct expert_batch {
  std::uint64_t id = 0;
  std::uint32_t layer = 0;
  std::uint64_t placement = 0;
  std::vector<std::uint32_t> rows;
  troupe::payload activations;
};

template <class Inspector>
typename Inspector::result_type inspect(Inspector& f, expert_batch& x) {
  return f(caf::meta::type_name("expert_batch"), x.id, x.layer, x.placement, x.rows, x.activations);
}

} // namespace

CAF_BEGIN_TYPE_ID_BLOCK(transport_bench, troupe::transport_type_ids_end)

  CAF_ADD_TYPE_ID(transport_bench, (expert_batch))

CAF_END_TYPE_ID_BLOCK(transport_bench)

namespace {

using clock_type = std::chrono::steady_clock;

using echo_actor = caf::typed_actor<
    // Returns the batch.
    caf::replies_to<expert_batch>::with<expert_batch>,
    // Processor time of the serving process, microseconds.
    caf::replies_to<caf::get_atom>::with<std::uint64_t>>;

double microseconds(clock_type::duration x) {
  return std::chrono::duration<double, std::micro>(x).count();
}

std::uint64_t processor_time() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto of = [](const timeval& x) {
    return static_cast<std::uint64_t>(x.tv_sec) * 1'000'000 + static_cast<std::uint64_t>(x.tv_usec);
  };
  return of(usage.ru_utime) + of(usage.ru_stime);
}

echo_actor::behavior_type echo(echo_actor::pointer) {
  return {
      [](expert_batch& x) {
        ++x.id;
        return std::move(x);
      },
      [](caf::get_atom) { return processor_time(); },
  };
}

struct config : caf::actor_system_config {
  explicit config(const std::string& kind) {
    if (kind == "basp") {
      load<caf::io::middleman>();
      add_message_types<caf::id_block::troupe_transport>();
    } else {
      troupe::configure_transport(*this);
    }
    add_message_types<caf::id_block::transport_bench>();
    set("scheduler.policy", caf::atom("sharing"));
    set("scheduler.max-threads", 2);
  }
};

troupe::transport_options options_for(const std::string& kind) {
  troupe::transport_options result;
  result.listen = "127.0.0.1:0";
  result.secret = "bench";
  result.net_devices = "lo";
  result.shared_memory = kind == "shm";
  return result;
}

int serve(const std::string& kind) {
  config cfg{kind};
  caf::actor_system sys{cfg};
  const auto server = sys.spawn(echo);
  std::unique_ptr<troupe::transport> net;
  std::string endpoint;
  if (kind == "basp") {
    const auto port = sys.middleman().publish(server, 0, "127.0.0.1");
    if (!port)
      return 1;
    endpoint = "127.0.0.1:" + std::to_string(*port);
  } else {
    net = std::make_unique<troupe::transport>(sys, options_for(kind));
    net->publish("echo", server);
    endpoint = net->endpoint();
  }
  std::printf("%s\n", endpoint.c_str());
  std::fflush(stdout);
  char c = 0;
  while (::read(STDIN_FILENO, &c, 1) > 0) {
  }
  std::_Exit(0);
}

struct plan {
  std::size_t num_bytes;
  std::size_t in_flight;
  clock_type::duration duration;
};

struct result {
  std::vector<double> latencies;
  double elapsed = 0;
  bool failed = false;
};

struct load_state {
  static inline const char* name = "load";
  plan what;
  result* into = nullptr;
  echo_actor server;
  expert_batch question;
  clock_type::time_point start;
  std::size_t running = 0;
};

void ask(caf::stateful_actor<load_state>* self) {
  auto& state = self->state;
  const auto sent = clock_type::now();
  self->request(state.server, 20s, state.question)
      .then(
          [self, sent](const expert_batch&) {
            auto& st = self->state;
            const auto now = clock_type::now();
            st.into->latencies.push_back(microseconds(now - sent));
            if (now - st.start < st.what.duration) {
              ask(self);
            } else if (--st.running == 0) {
              st.into->elapsed = microseconds(now - st.start);
              self->quit();
            }
          },
          [self](const caf::error& err) {
            std::cerr << "request failed: " << self->system().render(err) << '\n';
            self->state.into->failed = true;
            self->quit();
          });
}

caf::behavior load(caf::stateful_actor<load_state>* self, echo_actor server, plan what, result* into) {
  auto& state = self->state;
  state.what = what;
  state.into = into;
  state.server = std::move(server);
  state.question.rows.resize(32);
  state.question.activations = troupe::payload::allocate(what.num_bytes);
  if (what.num_bytes > 0)
    std::memset(state.question.activations.mutable_data(), 7, what.num_bytes);
  state.start = clock_type::now();
  state.running = what.in_flight;
  for (std::size_t i = 0; i < what.in_flight; ++i)
    ask(self);
  return {[](caf::unit_t) {}};
}

result measure(caf::actor_system& sys, const echo_actor& server, plan what) {
  result into;
  caf::scoped_actor self{sys};
  self->wait_for(sys.spawn(load, server, what, &into));
  return into;
}

std::vector<std::size_t> numbers(const std::string& list) {
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < list.size(); at = std::min(list.find(',', at), list.size() - 1) + 1)
    out.push_back(std::stoul(list.substr(at)));
  return out;
}

pid_t start_server(char* program, const std::string& kind, std::string& endpoint) {
  int from_child[2];
  int to_child[2];
  if (pipe(from_child) != 0 || pipe(to_child) != 0)
    return -1;
  std::string mode = "serve-" + kind;
  char* argv[] = {program, mode.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to_child[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from_child[1], STDOUT_FILENO);
  posix_spawn_file_actions_addclose(&actions, to_child[1]);
  posix_spawn_file_actions_addclose(&actions, from_child[0]);
  pid_t pid = -1;
  const auto err = posix_spawn(&pid, program, &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(from_child[1]);
  close(to_child[0]);
  char c = 0;
  while (err == 0 && ::read(from_child[0], &c, 1) == 1 && c != '\n')
    endpoint += c;
  return err == 0 ? pid : -1;
}

int run(char* program, const std::string& kind, std::chrono::milliseconds duration,
        const std::vector<std::size_t>& sizes, const std::vector<std::size_t>& in_flight) {
  std::string endpoint;
  const auto pid = start_server(program, kind, endpoint);
  if (pid < 0 || endpoint.empty())
    return 1;
  config cfg{kind};
  caf::actor_system sys{cfg};
  std::unique_ptr<troupe::transport> net;
  echo_actor server;
  if (kind == "basp") {
    const auto colon = endpoint.rfind(':');
    const auto port = static_cast<std::uint16_t>(std::stoul(endpoint.substr(colon + 1)));
    if (auto found = sys.middleman().remote_actor<echo_actor>(endpoint.substr(0, colon), port))
      server = *found;
  } else {
    net = std::make_unique<troupe::transport>(sys, options_for(kind));
    caf::scoped_actor self{sys};
    self->request(net->actor(), 5s, caf::resolve_atom_v, endpoint, std::string{"echo"})
        .receive([&](caf::strong_actor_ptr& found) { server = caf::actor_cast<echo_actor>(found); },
                 [&](caf::error& err) { std::cerr << sys.render(err) << '\n'; });
  }
  int rc = server ? 0 : 1;
  if (server) {
    for (const auto size : sizes) {
      for (const auto flights : in_flight) {
        measure(sys, server, {size, flights, 30ms});
        const auto remote_time = [&] {
          std::uint64_t x = 0;
          caf::scoped_actor self{sys};
          self->request(server, 5s, caf::get_atom_v)
              .receive([&](std::uint64_t y) { x = y; }, [](caf::error&) {});
          return x;
        };
        const auto before = processor_time();
        const auto remote_before = remote_time();
        auto got = measure(sys, server, {size, flights, duration});
        const auto used = processor_time() - before;
        const auto remote_used = remote_time() - remote_before;
        if (got.failed || got.latencies.empty()) {
          rc = 1;
          break;
        }
        std::sort(got.latencies.begin(), got.latencies.end());
        const auto count = got.latencies.size();
        std::printf("{\"transport\":\"%s\",\"bytes\":%zu,\"in_flight\":%zu,\"requests\":%zu,\"p50_us\":%.1f,"
                    "\"p99_us\":%.1f,\"per_second\":%.0f,\"client_cpu_us\":%.1f,\"server_cpu_us\":%.1f}\n",
                    kind.c_str(), size, flights, count, got.latencies[count / 2],
                    got.latencies[count * 99 / 100], 1e6 * static_cast<double>(count) / got.elapsed,
                    static_cast<double>(used) / static_cast<double>(count),
                    static_cast<double>(remote_used) / static_cast<double>(count));
        std::fflush(stdout);
      }
    }
  }
  if (net) {
    const auto s = net->stats();
    std::fprintf(stderr, "# %s: sent %lu received %lu fetched %lu wake-ups %lu pool allocations %lu\n",
                 kind.c_str(), s.frames_sent, s.frames_received, s.fetched_frames, s.wake_ups,
                 troupe::buffer_pool::instance().stats().allocations);
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  std::fflush(stdout);
  std::_Exit(rc);
}

} // namespace

int main(int argc, char** argv) {
  const std::string kind = argc > 1 ? argv[1] : "";
  if (kind.rfind("serve-", 0) == 0)
    return serve(kind.substr(6));
  if (kind != "tcp" && kind != "shm" && kind != "basp") {
    std::fprintf(stderr,
                 "usage: %s tcp|shm|basp [--milliseconds N] [--sizes A,B,...] [--in-flight A,B,...]\n",
                 argv[0]);
    return 2;
  }
  std::chrono::milliseconds duration{300};
  std::vector<std::size_t> sizes{0, 64, 8192, 131'072, 1'048'576};
  std::vector<std::size_t> in_flight{1, 8};
  for (int i = 2; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--milliseconds")
      duration = std::chrono::milliseconds{std::stoul(argv[i + 1])};
    else if (flag == "--sizes")
      sizes = numbers(argv[i + 1]);
    else if (flag == "--in-flight")
      in_flight = numbers(argv[i + 1]);
  }
  return run(argv[0], kind, duration, sizes, in_flight);
}
