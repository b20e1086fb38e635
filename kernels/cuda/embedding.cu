#include "kernels/cuda/embedding.hpp"

#include "kernels/cuda/numbers.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned embedding_threads = 256;

__global__ void __launch_bounds__(embedding_threads) embedding_kernel(embedding_args args) {
  const std::size_t row = blockIdx.x;
  const std::size_t token = args.tokens[row];
  TROUPE_DEVICE_CHECK(token < args.vocab);
  const float factor = args.row_scales != nullptr ? args.row_scales[token] * args.scale : args.scale;
  const float* position = nullptr;
  if (args.position_table != nullptr) {
    TROUPE_DEVICE_CHECK(args.positions[row] < args.num_positions);
    position = args.position_table + args.positions[row] * args.hidden;
  }
  for (std::size_t i = threadIdx.x; i < args.hidden; i += embedding_threads) {
    const std::size_t at = token * args.hidden + i;
    const float x = args.type == dtype::int8
                        ? static_cast<float>(static_cast<const std::int8_t*>(args.table)[at])
                        : number_at(args.table, args.type, at);
    const float value = x * factor; // compiled without contraction
    args.output[row * args.hidden + i] = position == nullptr ? value : value + position[i];
  }
}

} // namespace

void embed(const stream& on, const embedding_args& args) {
  launch("embed", on, {.blocks_x = args.rows, .threads = embedding_threads}, embedding_kernel, args);
}

} // namespace troupe::kernels::cuda
