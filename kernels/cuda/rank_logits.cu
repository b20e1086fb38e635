#include "kernels/cuda/rank_logits.hpp"

#include "kernels/cuda/ahead.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned rank_threads = 512;
constexpr unsigned rank_ahead = 16;

__global__ void __launch_bounds__(rank_threads) rank_logits_kernel(rank_logits_args args) {
  __shared__ std::uint32_t total;
  const logit_in_row wanted = args.wanted[blockIdx.x];
  TROUPE_DEVICE_CHECK(wanted.row < args.rows);
  const float* row = args.logits + wanted.row * args.vocab;
  if (threadIdx.x == 0)
    total = 0;
  block_barrier();
  std::uint32_t count = 0;
  for_each_loaded<rank_ahead>(row, args.vocab, threadIdx.x, rank_threads,
                              [&](std::size_t, float logit) { count += logit >= wanted.logit ? 1U : 0U; });
  count = warp_sum(count);
  if (lane_index() == 0)
    count_shared(&total, count);
  block_barrier();
  if (threadIdx.x == 0)
    args.ranks[blockIdx.x] = total;
}

} // namespace

void rank_logits(const stream& on, const rank_logits_args& args) {
  launch("rank_logits", on, {.blocks_x = args.count, .threads = rank_threads}, rank_logits_kernel, args);
}

} // namespace troupe::kernels::cuda
