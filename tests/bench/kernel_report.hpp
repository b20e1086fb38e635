// Times calls of kernels and compares them with the floor of the same run: the larger of bytes over the
// memory bandwidth, and multiply-adds over the peak of their unit.
#pragma once

#include <cstddef>
#include <ctime>
#include <functional>
#include <string>
#include <vector>

#include "kernels/context.hpp"
#include "tests/bench/machine_limits.hpp"

namespace troupe::bench {

struct kernel_report_options {
  int rounds = 15;
  std::string filter; ///< only kernels whose names contain this
  /// CLOCK_THREAD_CPUTIME_ID measures only the calling thread: for pools of one thread.
  clockid_t clock = CLOCK_MONOTONIC;
};

/// The unit: FP32 FMAs, or products of BF16 or int8, for which there may be a matrix unit.
enum class arithmetic { f32, bf16, int8, int4 };

class kernel_report {
 public:
  /// Measures the machine's limits (seconds).
  kernel_report(kernels::thread_pool& pool, kernels::isa set, kernel_report_options options);

  void print_head() const;

  /// Whether a kernel whose name begins with `prefix` may be wanted.
  bool wants_some_of(const std::string& prefix) const;

  /// Times `work`, which is called with a rising count, so that it can cycle through weights larger than the
  /// caches; prints a line. Does nothing if the filter excludes it.
  /// @param num_bytes  weights and cache that a call reads
  void measure(const std::string& name, double num_bytes, double multiply_adds,
               const std::function<void(std::size_t)>& work, arithmetic unit = arithmetic::f32);

  /// Prints one line to stderr if the file cannot be written.
  void write_json(const std::string& file) const;

 private:
  struct result {
    std::string name;
    double seconds = 0.0; // median of the rounds, per call
    double bytes_per_second = 0.0;
    double flops = 0.0; // 2 per multiply-add
    double floor_seconds = 0.0;
  };

  double median_seconds(int rounds, const std::function<void()>& work) const;

  kernel_report_options options_;
  kernels::isa set_;
  unsigned threads_;
  machine_limits limits_;
  std::vector<result> results_;
};

} // namespace troupe::bench
