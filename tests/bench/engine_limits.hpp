// What the machine can do: the floors that measured times are held against.
#pragma once

#include "kernels/thread_pool.hpp"

namespace troupe::bench {

/// Best of several rounds, all threads of the pool together. 0 where the processor has no such instruction.
struct machine_limits {
  double read_bytes_per_second =
      0.0;                 ///< memory far larger than the caches, the best of several ways to walk it
  double f32_flops = 0.0;  ///< fused multiply-adds, 2 each
  double bf16_flops = 0.0; ///< AMX tiles, operands from the first-level cache
  double int8_ops = 0.0;   ///< the same
};

machine_limits measure_limits(kernels::thread_pool& pool);

} // namespace troupe::bench
