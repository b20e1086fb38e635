#include "kernels/cuda/share_sums.hpp"

#include "kernels/cuda/shares.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/known_logits.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned share_threads = 512;

// Tokens of a block that a lane loads at a time.
constexpr unsigned share_ahead = 16;
static_assert(share_block % (share_ahead * warp_lanes) == 0);

// For a thread: the block that the draw falls into.
__device__ std::size_t block_of(const double* sums, std::size_t blocks, double uniform) {
  double total = 0.0;
  for (std::size_t b = 0; b < blocks; ++b)
    total += sums[b];
  const double target = uniform * total;
  double so_far = 0.0;
  for (std::size_t b = 0; b < blocks; ++b) {
    so_far += sums[b];
    if (so_far > target)
      return b;
  }
  return blocks - 1;
}

__global__ void __launch_bounds__(share_threads) share_sums_kernel(share_sums_args args, std::size_t blocks) {
  __shared__ std::size_t drawn_block;
  auto* sums = dynamic_shared<double>();
  const share_draw draw = args.draws[blockIdx.x];
  TROUPE_DEVICE_CHECK(draw.row < args.rows);
  const float* row = args.logits + draw.row * args.vocab;
  const float best = args.best[draw.row];
  for (std::size_t b = warp_index(); b < blocks; b += share_threads / warp_lanes) {
    double sum = 0.0;
    for (std::size_t i = lane_index(); i < share_block; i += std::size_t{share_ahead} * warp_lanes) {
      float logits[share_ahead];
      load_logits(row, args.vocab, b * share_block + i, warp_lanes, logits);
      TROUPE_UNROLL
      for (unsigned a = 0; a < share_ahead; ++a) {
        const float share = share_of((logits[a] - best) * draw.factor);
        sum += share >= draw.least ? static_cast<double>(share) : 0.0;
      }
    }
    sum = warp_sum(sum);
    if (lane_index() == 0) {
      sums[b] = sum;
      args.sums[blockIdx.x * blocks + b] = sum;
    }
  }
  block_barrier();
  if (threadIdx.x == 0) {
    drawn_block = block_of(sums, blocks, draw.uniform);
    args.drawn_blocks[blockIdx.x] = static_cast<std::uint32_t>(drawn_block);
  }
  block_barrier();
  for (std::size_t i = threadIdx.x; i < share_block; i += share_threads)
    args.drawn[blockIdx.x * share_block + i] = logit_or_none(row, args.vocab, drawn_block * share_block + i);
}

} // namespace

void share_sums(const stream& on, const share_sums_args& args) {
  const std::size_t blocks = share_blocks(args.vocab);
  launch("share_sums", on,
         {.blocks_x = args.num_draws, .threads = share_threads, .shared_bytes = blocks * sizeof(double)},
         share_sums_kernel, args, blocks);
}

} // namespace troupe::kernels::cuda
