#include "tests/bench/kernel_report.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <utility>

namespace troupe::bench {

namespace {

// Without products of BF16, its weights are widened for FMAs. Without a rate of integer products their floor
// is memory alone.
machine_limits limits_of(kernels::thread_pool& pool, kernels::isa set, clockid_t clock) {
  auto limits = measure_limits(pool, {.set = set, .clock = clock});
  if (limits.bf16_flops == 0.0)
    limits.bf16_flops = limits.f32_flops;
  if (limits.int8_ops == 0.0)
    limits.int8_ops = limits.int4_ops = INFINITY;
  return limits;
}

} // namespace

kernel_report::kernel_report(kernels::thread_pool& pool, kernels::isa set, kernel_report_options options)
    : options_(std::move(options)),
      set_(set),
      threads_(pool.threads()),
      limits_(limits_of(pool, set, options_.clock)) {}

void kernel_report::print_head() const {
  std::printf(
      "%s, %u threads; measured: read %.1f GB/s, FMA %.1f GFLOP/s, BF16 products %.1f GFLOP/s, integer "
      "products with int8 %.1f, with int4 %.1f GOP/s\n\n",
      name_of(set_), threads_, limits_.read_bytes_per_second * 1e-9, limits_.f32_flops * 1e-9,
      limits_.bf16_flops * 1e-9, limits_.int8_ops * 1e-9, limits_.int4_ops * 1e-9);
  std::printf("%-44s %12s %9s %9s %9s\n", "kernel", "median us", "GB/s", "GFLOP/s", "of floor");
}

bool kernel_report::wants_some_of(const std::string& prefix) const {
  return prefix.find(options_.filter) != std::string::npos
         || options_.filter.find(prefix) != std::string::npos;
}

double kernel_report::median_seconds(int rounds, const std::function<void()>& work) const {
  work(); // grows scratch, wakes threads
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const double begin = seconds_now(options_.clock);
    work();
    times.push_back(seconds_now(options_.clock) - begin);
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[static_cast<std::size_t>(rounds / 2)];
}

void kernel_report::measure(const std::string& name, double num_bytes, double multiply_adds,
                            const std::function<void(std::size_t)>& work, arithmetic unit) {
  if (name.find(options_.filter) == std::string::npos)
    return;
  // Calls of one round: about 20 ms.
  std::size_t count = 0;
  const double once = median_seconds(3, [&] { work(count++); });
  const auto calls = std::max<std::size_t>(1, static_cast<std::size_t>(0.02 / once));
  const double seconds = median_seconds(options_.rounds,
                                        [&] {
                                          for (std::size_t i = 0; i < calls; ++i)
                                            work(count++);
                                        })
                         / static_cast<double>(calls);
  const double peak = unit == arithmetic::bf16   ? limits_.bf16_flops
                      : unit == arithmetic::int8 ? limits_.int8_ops
                      : unit == arithmetic::int4 ? limits_.int4_ops
                                                 : limits_.f32_flops;
  const result r{name, seconds, num_bytes / seconds, 2 * multiply_adds / seconds,
                 std::max(num_bytes / limits_.read_bytes_per_second, 2 * multiply_adds / peak)};
  std::printf("%-44s %12.1f %9.1f %9.1f %8.0f%%\n", name.c_str(), seconds * 1e6, r.bytes_per_second * 1e-9,
              r.flops * 1e-9, 100 * r.floor_seconds / seconds);
  std::fflush(stdout);
  results_.push_back(r);
}

void kernel_report::write_json(const std::string& path) const {
  std::ofstream file(path);
  file << R"({"isa": ")" << name_of(set_) << R"(", "threads": )" << threads_ << R"(, "bandwidth_gbps": )"
       << limits_.read_bytes_per_second * 1e-9 << R"(, "fma_gflops": )" << limits_.f32_flops * 1e-9
       << R"(, "bf16_gflops": )" << limits_.bf16_flops * 1e-9 << R"(, "results": [)";
  const char* separator = "\n";
  for (const result& r : results_) {
    file << separator << R"(  {"name": ")" << r.name << R"(", "median_us": )" << r.seconds * 1e6
         << R"(, "gbps": )" << r.bytes_per_second * 1e-9 << R"(, "gflops": )" << r.flops * 1e-9
         << R"(, "floor_us": )" << r.floor_seconds * 1e6 << "}";
    separator = ",\n";
  }
  file << "\n]}\n";
  if (!file.flush())
    std::fprintf(stderr, "kernels_bench: cannot write %s\n", path.c_str());
}

} // namespace troupe::bench
