#include "kernels/cuda/logit_sums.hpp"

#include "kernels/cuda/ahead.cuh"
#include "kernels/cuda/shares.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned sum_threads = 512;
constexpr unsigned sum_warps = sum_threads / warp_lanes;

// Tokens that are summed in FP32 before they are added in double, in 16 lanes.
constexpr std::size_t group_tokens = 256;
constexpr unsigned group_lanes = 16;
constexpr unsigned group_steps = group_tokens / group_lanes;

constexpr unsigned best_ahead = 16;

__device__ float best_of(const float* row, std::size_t vocab) {
  __shared__ float of_warps[sum_warps];
  float best = -INFINITY;
  for_each_loaded<best_ahead>(row, vocab, threadIdx.x, sum_threads,
                              [&](std::size_t, float logit) { best = logit > best ? logit : best; });
  best = warp_max(best);
  if (lane_index() == 0)
    of_warps[warp_index()] = best;
  block_barrier();
  for (unsigned w = 0; w < sum_warps; ++w)
    best = of_warps[w] > best ? of_warps[w] : best;
  return best;
}

__global__ void __launch_bounds__(sum_threads) logit_sums_kernel(logit_sums_args args) {
  auto* group_sums = dynamic_shared<float>();
  TROUPE_DEVICE_CHECK(blockIdx.x < args.rows);
  const float* row = args.logits + blockIdx.x * args.vocab;
  const float best = best_of(row, args.vocab);
  const std::size_t groups = (args.vocab + group_tokens - 1) / group_tokens;
  const unsigned half = lane_index() / group_lanes;
  const unsigned lane = lane_index() % group_lanes;
  // Two groups per warp at a time.
  for (std::size_t first = warp_index() * 2; first < groups; first += std::size_t{sum_warps} * 2) {
    const std::size_t group = first + half;
    float logits[group_steps];
    load_logits(row, args.vocab, group * group_tokens + lane, group_lanes, logits);
    float sum = 0.0F;
    TROUPE_UNROLL
    for (unsigned i = 0; i < group_steps; ++i)
      sum += share_of(logits[i] - best);
    for (unsigned apart = group_lanes / 2; apart > 0; apart /= 2)
      sum += shuffle_xor(sum, apart);
    if (lane == 0 && group < groups)
      group_sums[group] = sum;
  }
  block_barrier();
  if (threadIdx.x != 0)
    return;
  double total = 0.0;
  for (std::size_t group = 0; group < groups; ++group)
    total += static_cast<double>(group_sums[group]);
  args.best[blockIdx.x] = best;
  args.sums[blockIdx.x] = total;
}

} // namespace

void logit_sums(const stream& on, const logit_sums_args& args) {
  launch("logit_sums", on,
         {.blocks_x = args.rows,
          .threads = sum_threads,
          .shared_bytes = (args.vocab + group_tokens - 1) / group_tokens * sizeof(float)},
         logit_sums_kernel, args);
}

} // namespace troupe::kernels::cuda
