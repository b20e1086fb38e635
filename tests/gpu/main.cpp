// Checks every op of the CUDA backend against the CPU's, and measures them: tests/gpu/run.sh runs it.
//
//   gpu_check [--only OP,OP...] [--small] [--times] [--limits GB/S,TFLOP/S] [--seed N] [--seconds N]
//   [--or-skip]
//             [--order rising|falling|mixed]
//   gpu_check --list      the ops' names, a line each
//   gpu_check --measure   what the card can do at most, for --limits; --times without them measures it first
//
// An op that throws is wrong, and the next one is checked. A kernel's access to a wrong address ends all ops
// of a process, so run.sh starts one for each.
// --seconds: then the table of what was checked until then is printed, and the rest is wrong.
// --or-skip: without a GPU that this build is for, say so and end with status 77 instead of 1.
// Linked with the emulation, the same program runs all of it, kernels too, on the host; --order says in which
// order threads run between barriers.
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "tests/gpu/cases.hpp"

#ifdef TROUPE_CUDA_EMULATED
#  include "kernels/cuda/emulation.hpp"
#endif

namespace {

constexpr int skipped = 77;

using namespace troupe::gpu_check;
namespace cuda = troupe::kernels::cuda;

// Sets the order; false if there is none of this name.
bool set_order([[maybe_unused]] std::string_view name) {
#ifdef TROUPE_CUDA_EMULATED
  for (const auto& [known, order] : {std::pair{"rising", cuda::emulation::order::rising},
                                     std::pair{"falling", cuda::emulation::order::falling},
                                     std::pair{"mixed", cuda::emulation::order::mixed}})
    if (name == known) {
      cuda::emulation::set_order(order);
      return true;
    }
#endif
  return false;
}

// Why there is no device; empty: there is one.
std::string why_none() {
  try {
    const auto devices = cuda::list_devices();
    return devices.empty() ? "this machine has no GPU" : cuda::why_unsuitable(devices.front());
  } catch (const cuda::device_error& error) {
    return error.what();
  }
}

// Prints the table and ends the process at the time limit, even while the device hangs.
class time_limit {
 public:
  explicit time_limit(const session& s) : session_(s) {
    if (s.options().seconds != 0)
      watch_ = std::thread([this] { wait(); });
  }

  ~time_limit() {
    {
      const std::lock_guard lock{mutex_};
      is_over_ = true;
    }
    ended_.notify_all();
    if (watch_.joinable())
      watch_.join();
  }

  time_limit(const time_limit&) = delete;
  time_limit& operator=(const time_limit&) = delete;

 private:
  void wait() {
    std::unique_lock lock{mutex_};
    if (ended_.wait_for(lock, std::chrono::seconds{session_.options().seconds}, [this] { return is_over_; }))
      return;
    std::printf("WRONG %s: it did not end within the %u s that all had\n", session_.current_op().c_str(),
                session_.options().seconds);
    session_.print_table();
    std::fflush(stdout);
    std::_Exit(3);
  }

  const session& session_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_over_ = false;
  std::thread watch_;
};

struct op_checks {
  const char* op;
  void (*check)(session&);
};

constexpr op_checks all_checks[] = {
    {"embedding", check_embedding},       {"norm", check_norm},           {"router", check_router},
    {"expert_table", check_expert_table}, {"combine", check_combine},     {"qkv", check_qkv},
    {"kv_blocks", check_kv_blocks},       {"attention", check_attention}, {"few_rows", check_few_rows},
    {"tiled_rows", check_tiled_rows},     {"many_rows", check_many_rows}, {"experts", check_experts},
    {"sampling", check_sampling},
};

bool is_op(const std::string& name) {
  return std::any_of(std::begin(all_checks), std::end(all_checks),
                     [&](const op_checks& checks) { return checks.op == name; });
}

// Names between commas; empty: one of them is no op's.
std::vector<std::string> ops_in(const std::string& list) {
  std::vector<std::string> ops;
  std::istringstream in(list);
  for (std::string op; std::getline(in, op, ',');) {
    if (!is_op(op))
      return {};
    ops.push_back(op);
  }
  return ops;
}

// "3000,800"
std::optional<card_limits> limits_in(const std::string& text) {
  double gigabytes = 0.0;
  double teraflops = 0.0;
  if (std::sscanf(text.c_str(), "%lf,%lf", &gigabytes, &teraflops) != 2 || gigabytes <= 0.0
      || teraflops <= 0.0)
    return std::nullopt;
  return card_limits{.bytes_per_second = gigabytes * 1e9, .flops_per_second = teraflops * 1e12};
}

void run(session& s) {
  const time_limit limit(s);
  const auto begin = std::chrono::steady_clock::now();
  for (const op_checks& checks : all_checks) {
    try {
      checks.check(s);
    } catch (const std::exception& error) {
      s.note("after which the op ended", false, error.what());
    }
    std::fflush(stdout);
  }
  s.print_table();
  std::printf("%s in %.1f s, %s\n", s.all_right() ? "ALL RIGHT" : "SOMETHING IS WRONG",
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
              cuda::is_real_device() ? "on a GPU" : "emulated: nothing was run on a GPU");
}

} // namespace

int main(int argc, char** argv) {
  check_options options;
  options.seed = std::random_device{}();
  bool or_skip = false;
  bool measure = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--small") {
      options.small = true;
    } else if (flag == "--times") {
      options.times = true;
    } else if (flag == "--or-skip") {
      or_skip = true;
    } else if (flag == "--measure") {
      measure = true;
    } else if (flag == "--list") {
      for (const op_checks& checks : all_checks)
        std::printf("%s\n", checks.op);
      return 0;
    } else if (flag == "--only" && i + 1 < argc && !ops_in(argv[i + 1]).empty()) {
      options.only = ops_in(argv[++i]);
    } else if (flag == "--limits" && i + 1 < argc && limits_in(argv[i + 1])) {
      options.limits = limits_in(argv[++i]);
    } else if (flag == "--seconds" && i + 1 < argc) {
      options.seconds = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (flag == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag != "--order" || i + 1 >= argc || !set_order(argv[++i])) {
      std::fprintf(stderr,
                   "usage: gpu_check [--only OP,OP...] [--small] [--times] [--limits GB/S,TFLOP/S] [--seed N]"
                   " [--seconds N] [--or-skip] [--order rising|falling|mixed, emulated only]\n"
                   "       gpu_check --list | --measure\n");
      return 2;
    }
  }
  if (const std::string reason = why_none(); !reason.empty()) {
    std::printf("%s: nothing was run on a GPU: %s\n", or_skip ? "skipped" : "failed", reason.c_str());
    return or_skip ? skipped : 1;
  }
  try {
    session s(options);
    if (measure)
      return s.measure_limits() ? 0 : 1;
    run(s);
    return s.all_right() ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
