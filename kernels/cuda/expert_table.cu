#include "kernels/cuda/expert_table.hpp"

#include "kernels/cuda/warp.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned table_warps = 8;

__global__ void __launch_bounds__(table_warps * 32) expert_table_kernel(expert_table_args args) {
  __shared__ std::uint32_t own_counts[table_warps];
  __shared__ std::uint32_t lower_counts[table_warps];
  const auto expert = static_cast<std::uint32_t>(blockIdx.x);
  const auto num_experts = static_cast<std::uint32_t>(args.num_experts);
  const bool for_the_left_out = expert == num_experts;
  const unsigned warp = warp_index();
  // Each warp has a run of whole groups of 32.
  const std::size_t groups = (args.pairs + warp_lanes - 1) / warp_lanes;
  const std::size_t begin = groups * warp / table_warps * warp_lanes;
  const std::size_t end = groups * (warp + 1) / table_warps * warp_lanes;

  std::uint32_t own = 0;
  std::uint32_t lower = 0;
  for (std::size_t i = begin + lane_index(); i < end; i += warp_lanes) {
    const std::uint32_t e = i < args.pairs ? args.experts[i] : no_place;
    own += e == expert ? 1U : 0U;
    lower += e < expert ? 1U : 0U;
  }
  own = warp_sum(own);
  lower = warp_sum(lower);
  if (lane_index() == 0) {
    own_counts[warp] = own;
    lower_counts[warp] = lower;
  }
  block_barrier();

  std::uint32_t first = 0; // of the block's pairs
  for (unsigned w = 0; w < table_warps; ++w)
    first += lower_counts[w];
  if (threadIdx.x == 0)
    args.offsets[expert] = first;
  for (unsigned w = 0; w < warp; ++w)
    first += own_counts[w];
  for (std::size_t i = begin + lane_index(); i < end; i += warp_lanes) {
    const std::uint32_t e = i < args.pairs ? args.experts[i] : no_place;
    if (for_the_left_out) {
      if (i < args.pairs && e >= num_experts && args.positions != nullptr)
        args.positions[i] = no_place;
      continue;
    }
    const std::uint32_t matches = ballot(e == expert);
    if (e == expert) {
      const std::uint32_t to = first + count_bits(matches & ((1U << lane_index()) - 1U));
      TROUPE_DEVICE_CHECK(to < args.pairs);
      args.entries[to] = static_cast<std::uint32_t>(i);
      if (args.positions != nullptr)
        args.positions[i] = to;
    }
    first += count_bits(matches);
  }
}

} // namespace

void build_expert_table(const stream& on, const expert_table_args& args) {
  expect(args.pairs < no_place && args.num_experts < no_place,
         "cuda build_expert_table: too many pairs or experts");
  launch("build_expert_table", on, {.blocks_x = args.num_experts + 1, .threads = table_warps * 32},
         expert_table_kernel, args);
}

} // namespace troupe::kernels::cuda
