// Checks every op of the CUDA backend against the CPU's, and measures them: tests/gpu/run.sh runs it.
//
//   gpu_check [--only OP] [--small] [--times] [--seed N] [--or-skip] [--order rising|falling|mixed]
//
// --or-skip: without a GPU that this build is for, say so and end with status 77 instead of 1.
// Linked with the emulation, the same program runs all of it, kernels too, on the host; --order says in which
// order threads run between barriers.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <random>
#include <string_view>

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

void run(session& s) {
  const auto begin = std::chrono::steady_clock::now();
  for (const auto check :
       {check_embedding, check_norm, check_router, check_expert_table, check_combine, check_qkv,
        check_kv_blocks, check_attention, check_few_rows, check_many_rows, check_experts}) {
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
    } else if (flag == "--seed" && i + 1 < argc) {
      options.seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (flag != "--order" || i + 1 >= argc || !set_order(argv[++i])) {
      std::fprintf(stderr, "usage: gpu_check [--only OP] [--small] [--times] [--seed N] [--or-skip]"
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
