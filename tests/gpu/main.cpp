// Checks every op of the CUDA backend against the CPU's, and measures them: tests/gpu/run.sh runs it.
//
//   gpu_check [--only OP] [--small] [--times] [--seed N] [--seconds N] [--or-skip] [--order
//   rising|falling|mixed]
//
// --seconds: then the table of what was checked until then is printed, and the rest is wrong.
// --or-skip: without a GPU that this build is for, say so and end with status 77 instead of 1.
// Linked with the emulation, the same program runs all of it, kernels too, on the host; --order says in which
// order threads run between barriers.
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <random>
#include <string_view>
#include <thread>

#include "tests/gpu/cases.hpp"

#ifdef TROUPE_CUDA_EMULATED
#  include "kernels/cuda/emulation.hpp"
#endif

namespace {

constexpr int skipped = 77;

using namespace troupe::gpu_check;
namespace cuda = troupe::kernels::cuda;

// Whether there is such an order.
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

// Empty: there is a device.
std::string why_none() {
  try {
    const auto devices = cuda::list_devices();
    return devices.empty() ? "this machine has no GPU" : cuda::why_unsuitable(devices.front());
  } catch (const cuda::device_error& error) {
    return error.what();
  }
}

// Prints the table and ends the process when the time is over, also while the device hangs.
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

void run(session& s) {
  const time_limit limit(s);
  const auto begin = std::chrono::steady_clock::now();
  for (const auto check : {check_embedding, check_norm, check_router, check_expert_table, check_combine,
                           check_qkv, check_kv_blocks, check_attention, check_few_rows, check_tiled_rows,
                           check_many_rows, check_experts, check_sampling}) {
    check(s);
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
  for (int i = 1; i < argc; ++i) {
    const std::string_view flag = argv[i];
    if (flag == "--small") {
      options.small = true;
    } else if (flag == "--times") {
      options.times = true;
    } else if (flag == "--or-skip") {
      or_skip = true;
    } else if (flag == "--only" && i + 1 < argc) {
      options.only = argv[++i];
    } else if (flag == "--seconds" && i + 1 < argc) {
      options.seconds = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (flag == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag != "--order" || i + 1 >= argc || !set_order(argv[++i])) {
      std::fprintf(stderr,
                   "usage: gpu_check [--only OP] [--small] [--times] [--seed N] [--seconds N] [--or-skip]"
                   " [--order rising|falling|mixed, emulated only]\n");
      return 2;
    }
  }
  if (const std::string reason = why_none(); !reason.empty()) {
    std::printf("%s: nothing was run on a GPU: %s\n", or_skip ? "skipped" : "failed", reason.c_str());
    return or_skip ? skipped : 1;
  }
  try {
    session s(options);
    run(s);
    return s.all_right() ? 0 : 1;
  } catch (const std::exception& error) {
    std::printf("failed: %s\n", error.what());
    return 1;
  }
}
