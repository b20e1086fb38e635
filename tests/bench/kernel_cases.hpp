// The kernels that kernels_bench times: products, expert FFNs, attention and what lies between them, in the
// shapes of a small Mixtral, each with its count of bytes and multiply-adds.
#pragma once

#include "kernels/context.hpp"
#include "tests/bench/kernel_report.hpp"

namespace troupe::bench {

/// Measures every kernel that the report wants, weights in BF16 and in FP32. Weights of a round take 768 MiB.
void measure_kernels(kernels::context& ctx, kernel_report& report);

} // namespace troupe::bench
