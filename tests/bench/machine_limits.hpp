// Measures the machine's limits: the floors of measured times.
#pragma once

#include <ctime>

#include "kernels/isa.hpp"
#include "kernels/thread_pool.hpp"

namespace troupe::bench {

/// Best of several rounds, all threads of the pool together. 0 if the instruction set lacks the instruction.
struct machine_limits {
  double read_bytes_per_second = 0.0; ///< memory far larger than the caches
  double f32_flops = 0.0;             ///< fused multiply-adds, 2 each
  double bf16_flops = 0.0;            ///< AMX: products of tiles in registers; AVX-512: dot products
  double int8_ops = 0.0;              ///< exact products of bytes: the same, AVX-512's (VNNI) or AVX2's
  double int4_ops = 0.0;              ///< of half bytes with bytes
};

struct limits_options {
  kernels::isa set = kernels::detect(); ///< the instructions to use; for FMAs at least AVX2's, if available
  clockid_t clock = CLOCK_MONOTONIC;
};

/// Seconds of a clock. CLOCK_THREAD_CPUTIME_ID is that of the calling thread, which other processes on the
/// same cores disturb less.
double seconds_now(clockid_t clock);

/// Takes a few seconds and 512 MiB.
machine_limits measure_limits(kernels::thread_pool& pool, const limits_options& options = {});

} // namespace troupe::bench
