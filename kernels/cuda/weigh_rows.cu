#include "kernels/cuda/weigh_rows.hpp"

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned weigh_threads = 256;

__global__ void __launch_bounds__(weigh_threads) weigh_rows_kernel(weigh_rows_args args) {
  const std::size_t row = blockIdx.x;
  TROUPE_DEVICE_CHECK(row < args.rows);
  const float weight = args.weights[row];
  for (std::size_t i = threadIdx.x; i < args.hidden; i += weigh_threads)
    set_number(args.output, dtype::bf16, row * args.hidden + i,
               weight * number_at(args.input, dtype::bf16, row * args.hidden + i));
  block_barrier();
  if (threadIdx.x == 0)
    args.weights[row] = 1.0F;
}

} // namespace

void weigh_rows(const stream& on, const weigh_rows_args& args) {
  launch("weigh_rows", on, {.blocks_x = args.rows, .threads = weigh_threads}, weigh_rows_kernel, args);
}

} // namespace troupe::kernels::cuda
