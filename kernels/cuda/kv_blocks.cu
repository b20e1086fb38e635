#include "kernels/cuda/kv_blocks.hpp"

#include "kernels/cuda/memory.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned copy_threads = 256;

__global__ void __launch_bounds__(copy_threads) copy_blocks_kernel(copy_blocks_args args) {
  const block_copy copy = args.copies[blockIdx.x];
  const kv_layer layer = args.layers[blockIdx.y];
  TROUPE_DEVICE_CHECK(copy.from < layer.blocks && copy.to < layer.blocks);
  const std::size_t num_bytes = layer.block_bytes(); // 16 tokens of 8 numbers or more: a multiple of 16
  const std::byte* from = layer.data + copy.from * num_bytes;
  std::byte* to = layer.data + copy.to * num_bytes;
  for (std::size_t i = threadIdx.x * sizeof(bits128); i < num_bytes; i += copy_threads * sizeof(bits128))
    *reinterpret_cast<bits128*>(to + i) = *reinterpret_cast<const bits128*>(from + i);
}

} // namespace

void copy_blocks(const stream& on, const copy_blocks_args& args) {
  launch("copy_blocks", on,
         {.blocks_x = args.num_copies, .blocks_y = args.num_layers, .threads = copy_threads},
         copy_blocks_kernel, args);
}

} // namespace troupe::kernels::cuda
