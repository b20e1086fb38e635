// What a real scheduler sends and how long it takes in a cluster of modelled workers under virtual time.
//
//   control_plane_scale [hosts] [attention workers] [layers] [experts of a layer]
//
// 1,000 hosts, 64 attention workers and 60 layers of 256 experts unless told otherwise. Workers join within
// one second, load any order in 50 ms, and renew twice a second. Bytes are those that remote workers would
// get; of views also those that were encoded for them, since one publication is encoded once. Attention
// workers have their activation reporters, and nothing to tell, so that an idle cluster shows renewals alone.
// Fails when the cluster starts, hosts the experts of a dead worker again, or is whole again after a restart
// of the scheduler later than it should.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <sys/resource.h>

#include "actors/history/activation_reporter.hpp"
#include "actors/history/history.hpp"
#include "tests/unit/actors/scheduler/large_cluster.hpp"

namespace {

using namespace std::chrono_literals;
using namespace troupe;

constexpr auto start_limit = 5s;       // virtual
constexpr auto start_real_limit = 60s; // of this machine
constexpr auto death_limit = 300ms;    // virtual
constexpr auto restart_limit = 1s;     // virtual: the longest pause between two attempts

double milliseconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double, std::milli>(time).count();
}

class bench_cluster : public large_cluster {
 public:
  int run_all(shape wanted) {
    SetUp();
    print_header();
    begin();
    start(std::move(wanted));
    start_reporters();
    const auto is_up = run_until([this] { return is_ready(); }, 60s);
    const auto start_time = now();
    const auto start_real = std::chrono::steady_clock::now() - real_begin_;
    print("start, to ready");
    begin();
    advance(5s);
    print("after it, 5 s");
    begin();
    advance(60s);
    print("idle minute");
    begin();
    add(false, 0s);
    advance(10s);
    print("a host joins, 10 s");
    begin();
    add(true, 0s);
    advance(10s);
    print("an attention worker joins, 10 s");
    begin();
    const auto epoch = newest_epoch;
    const auto dead = hosts.begin()->second;
    hosts.erase(hosts.begin());
    kill(dead);
    const auto is_back = run_until([&] { return is_ready(epoch); }, 60s);
    const auto death_time = now() - begin_;
    print("a host dies, to re-hosted");
    begin();
    advance(10s);
    print("after it, 10 s");
    const auto is_restarted = restart();
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("\nready %.0f virtual ms after the start, %.1f s of this machine; experts of a dead host are "
                "back after "
                "%.0f virtual ms; %ld MiB at most\n",
                milliseconds_of(start_time), std::chrono::duration<double>(start_real).count(),
                milliseconds_of(death_time), usage.ru_maxrss / 1024);
    TearDown();
    return is_up && is_back && is_restarted && start_time <= start_limit && start_real <= start_real_limit
                   && death_time <= death_limit
               ? EXIT_SUCCESS
               : EXIT_FAILURE;
  }

 private:
  void TestBody() override {}

  using counting_actor = caf::typed_actor<caf::replies_to<caf::get_atom>::with<activation_counts_ptr>>;

  /// Starts a reporter beside each attention worker, with constant counts.
  void start_reporters() {
    directory_ = root(system.spawn(local_directory));
    history_ = root(system.spawn([this]() -> history_actor::behavior_type {
      return {[this](const activation_report& report) {
                ++reports_.messages;
                reports_.bytes += size_of(report);
                return activation_receipt{report.first, report.first};
              },
              [](history_atom, std::uint32_t) { return history_snapshot{}; }, [](caf::tick_atom) {}};
    }));
    caf::anon_send(directory_, caf::publish_atom_v, "history",
                   caf::actor_cast<caf::strong_actor_ptr>(history_));
    activation_counts none;
    for (const auto experts : chosen.layer_experts)
      none.rows.emplace_back(experts);
    const auto counts = std::make_shared<const activation_counts>(std::move(none));
    const auto idle = root(system.spawn([counts]() -> counting_actor::behavior_type {
      return {[counts](caf::get_atom) { return counts; }};
    }));
    for (const auto& [id, router] : routers) {
      activation_reporter_config config;
      config.worker = caf::actor_cast<caf::strong_actor_ptr>(idle);
      config.id = {id};
      config.fingerprint = "model";
      config.layer_experts = chosen.layer_experts;
      config.directory = directory_;
      root(spawn_activation_reporter(system, std::move(config)));
    }
  }

  void begin() {
    take_sent();
    renewals = reports_ = {};
    publications_ = num_publications;
    begin_ = now();
    real_begin_ = std::chrono::steady_clock::now();
  }

  /// The scheduler dies, and its successor starts 100 ms later. Nothing must be loaded again.
  bool restart() {
    begin();
    const auto welcomes = num_welcomes;
    const auto everybody = hosts.size() + routers.size();
    restart_scheduler(100ms);
    begin_ = now();
    const auto is_whole = run_until([&] { return num_welcomes - welcomes == everybody && is_ready(); }, 60s);
    const auto time = now() - begin_;
    advance(10s);
    const auto num_orders = print(("restart: all " + std::to_string(everybody) + " workers back after "
                                   + std::to_string(std::llround(milliseconds_of(time))) + " virtual ms")
                                      .c_str());
    return is_whole && num_orders == 0 && time <= restart_limit;
  }

  static void print_header() {
    std::printf("| what | virtual ms | real ms of all | publications | welcomes | views | orders | bytes of "
                "welcomes | "
                "of views | encoded of views | of orders | renewals | bytes of renewals | activation reports "
                "| bytes of reports |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  }

  /// @returns how many orders the scheduler has sent
  std::uint64_t print(const char* what) {
    const auto real = std::chrono::steady_clock::now() - real_begin_;
    auto sent = take_sent();
    const auto count = [&sent](const char* kind) {
      return static_cast<unsigned long long>(sent[kind].messages);
    };
    const auto bytes = [&sent](const char* kind) {
      return static_cast<unsigned long long>(sent[kind].bytes);
    };
    const auto number = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
    std::printf("| %s | %.0f | %.0f | %llu | %llu | %llu | %llu | %llu | %llu | %llu | %llu | %llu | %llu | "
                "%llu | %llu "
                "|\n",
                what, milliseconds_of(now() - begin_), milliseconds_of(real),
                number(num_publications - publications_), count("welcome"), count("view"), count("order"),
                bytes("welcome"), bytes("view"), number(sent["view"].encoded), bytes("order"),
                number(renewals.messages), number(renewals.bytes), number(reports_.messages),
                number(reports_.bytes));
    std::fflush(stdout);
    return sent["order"].messages;
  }

  local_directory_actor directory_;
  history_actor history_;
  tally reports_; ///< sent to the history
  std::uint64_t publications_ = 0;
  duration begin_{};
  std::chrono::steady_clock::time_point real_begin_;
};

std::uint32_t number(int argc, char** argv, int index, std::uint32_t otherwise) {
  return index < argc ? static_cast<std::uint32_t>(std::strtoul(argv[index], nullptr, 10)) : otherwise;
}

} // namespace

int main(int argc, char** argv) {
  bench_cluster cluster;
  bench_cluster::shape wanted;
  wanted.num_hosts = number(argc, argv, 1, 1000);
  wanted.num_routers = number(argc, argv, 2, 64);
  wanted.layer_experts.assign(number(argc, argv, 3, 60), number(argc, argv, 4, 256));
  if (wanted.num_hosts == 0 || wanted.num_routers == 0 || wanted.layer_experts.empty()
      || wanted.layer_experts.front() == 0) {
    std::fprintf(
        stderr,
        "control_plane_scale: hosts, attention workers, layers and experts must be numbers above 0\n");
    return EXIT_FAILURE;
  }
  // Twice the memory that all experts need.
  wanted.max_experts = 2 * wanted.layer_experts.size() * wanted.layer_experts.front() / wanted.num_hosts + 1;
  return cluster.run_all(std::move(wanted));
}
