#include "kernels/cuda/combine.hpp"

#include <cmath>

#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/expert_table.hpp"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned combine_threads = 256;

__global__ void __launch_bounds__(combine_threads) combine_kernel(combine_args args) {
  const std::size_t row = blockIdx.x;
  const float* weights = args.weights + row * args.top_k;
  float* residual = args.residual + row * args.residual_stride;
  const std::size_t column = std::size_t{blockIdx.y} * combine_threads + threadIdx.x;
  if (column >= args.hidden)
    return;
  float sum = 0.0F;
  bool first = true;
  for (std::size_t slot = 0; slot < args.top_k; ++slot) {
    const std::size_t place = row * args.top_k + slot;
    const std::size_t at = args.positions != nullptr ? args.positions[place] : place;
    if (at == no_place)
      continue;
    TROUPE_DEVICE_CHECK(at < args.num_outputs);
    const float x = number_at(row_at(args.outputs, args.type, args.hidden, at), args.type, column);
    sum = first ? weights[slot] * x : fmaf(weights[slot], x, sum);
    first = false;
  }
  if (!first)
    residual[column] += sum;
}

__global__ void __launch_bounds__(combine_threads) shared_expert_kernel(shared_expert_args args) {
  __shared__ float scratch[warp_lanes];
  const std::size_t row = blockIdx.x;
  float factor = args.factor;
  if (args.gate != nullptr) {
    float sum = 0.0F;
    for (std::size_t i = threadIdx.x; i < args.hidden; i += combine_threads)
      sum = fmaf(to_float(args.input[row * args.hidden + i]), args.gate[i], sum);
    factor *= sigmoid(block_sum(sum, scratch));
  }
  const void* output = row_at(args.output, args.type, args.hidden, row);
  float* residual = args.residual + row * args.residual_stride;
  for (std::size_t i = threadIdx.x; i < args.hidden; i += combine_threads)
    residual[i] = fmaf(factor, number_at(output, args.type, i), residual[i]);
}

} // namespace

void combine(const stream& on, const combine_args& args) {
  if (args.top_k == 0)
    return;
  launch("combine", on,
         {.blocks_x = args.rows,
          .blocks_y = (args.hidden + combine_threads - 1) / combine_threads,
          .threads = combine_threads},
         combine_kernel, args);
}

void add_shared_expert(const stream& on, const shared_expert_args& args) {
  launch("add_shared_expert", on, {.blocks_x = args.rows, .threads = combine_threads}, shared_expert_kernel,
         args);
}

} // namespace troupe::kernels::cuda
