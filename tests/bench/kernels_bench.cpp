// Compares each kernel with its floor: weight bytes over the memory bandwidth, multiply-adds over the peak of
// their unit (FP32 FMA, dot products of BF16 or of bytes, tiles without their loads), all measured in the
// same run. Prints a table, and the same as JSON with --json FILE.
//
//    kernels_bench [--threads N] [--isa NAME] [--rounds N] [--filter TEXT] [--clock wall|cpu] [--json FILE]
//
// --clock cpu --threads 1 measures the thread's processor time, which other processes on the same cores
// disturb less.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <optional>
#include <string>

#include "kernels/self_test.hpp"
#include "tests/bench/kernel_cases.hpp"
#include "tests/bench/kernel_report.hpp"

using namespace troupe::kernels;
using namespace troupe::bench;

int main(int argc, char** argv) {
  unsigned threads = 0;
  std::optional<isa> set;
  kernel_report_options options;
  std::string json;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    const char* value = argv[i + 1];
    if (flag == "--threads")
      threads = static_cast<unsigned>(std::atoi(value));
    else if (flag == "--isa" && isa_from_name(value))
      set = isa_from_name(value);
    else if (flag == "--rounds")
      options.rounds = std::max(1, std::atoi(value));
    else if (flag == "--filter")
      options.filter = value;
    else if (flag == "--clock")
      options.clock = std::strcmp(value, "cpu") == 0 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC;
    else if (flag == "--json")
      json = value;
    else {
      std::fprintf(stderr, "kernels_bench: unknown %s %s\n", flag.c_str(), value);
      return 2;
    }
  }
  try {
    thread_pool pool({.threads = threads});
    context ctx(pool, select_isa(set).chosen);
    kernel_report report(pool, ctx.instruction_set(), options);
    report.print_head();
    measure_kernels(ctx, report);
    if (!json.empty())
      report.write_json(json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels_bench: %s\n", error.what());
    return 1;
  }
}
