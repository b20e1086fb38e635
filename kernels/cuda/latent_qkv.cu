#include "kernels/cuda/latent_qkv.hpp"

#include <algorithm>

#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/rotation.cuh"
#include "kernels/error.hpp"
#include "kernels/kv_limits.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned latent_qkv_warps = 8;

// x = row, y = a share of its heads, one head per warp at a time; the key counts as one more head.
__global__ void __launch_bounds__(latent_qkv_warps * 32) latent_qkv_kernel(latent_qkv_args args) {
  __shared__ float heads[latent_qkv_warps][most_latent_dims];
  const std::size_t row = blockIdx.x;
  const std::size_t position = args.positions[row];
  const std::size_t slot = args.slots[row];
  TROUPE_DEVICE_CHECK(position < args.num_positions);
  TROUPE_DEVICE_CHECK(slot < args.cache.blocks * args.cache.block_tokens);
  const std::size_t latent = args.cache.value_dim;
  const std::size_t key_width = latent + args.rope_dim;
  const std::size_t query_dim = args.nope_dim + args.rope_dim;
  const std::size_t pairs = args.rope_dim / 2;
  float* head = heads[warp_index()];
  for (std::size_t h = std::size_t{blockIdx.y} * latent_qkv_warps + warp_index(); h <= args.heads;
       h += std::size_t{gridDim.y} * latent_qkv_warps) {
    const bool is_key = h == args.heads;
    const std::size_t width = is_key ? key_width : query_dim;
    const std::size_t first_rotated = width - args.rope_dim;
    const float* from =
        is_key ? args.keys + row * key_width : args.queries + (row * args.heads + h) * query_dim;
    for (std::size_t i = lane_index(); i < width; i += warp_lanes)
      head[i] = from[i];
    if (is_key) {
      float squares = 0.0F;
      for (std::size_t i = lane_index(); i < latent; i += warp_lanes)
        squares = fmaf(head[i], head[i], squares);
      const float factor = 1.0F / sqrtf(warp_sum(squares) / static_cast<float>(latent) + args.epsilon);
      for (std::size_t i = lane_index(); i < latent; i += warp_lanes)
        head[i] = head[i] * factor * args.norm[i];
    }
    warp_barrier();
    rotate_pairs(args.cosines, args.sines, position, pairs, args.style, head + first_rotated);
    warp_barrier();
    if (is_key) {
      auto* to = reinterpret_cast<bfloat16*>(args.cache.data + args.cache.key_offset(slot, 0));
      for (std::size_t i = lane_index(); i < key_width; i += warp_lanes)
        to[i] = round_bf16(head[i]);
    } else {
      bfloat16* still = args.still + (row * args.heads + h) * args.nope_dim;
      for (std::size_t i = lane_index(); i < args.nope_dim; i += warp_lanes)
        still[i] = round_bf16(head[i]);
      bfloat16* rotated = args.absorbed + (row * args.heads + h) * key_width + latent;
      for (std::size_t i = lane_index(); i < args.rope_dim; i += warp_lanes)
        rotated[i] = round_bf16(head[args.nope_dim + i]);
    }
    warp_barrier();
  }
}

} // namespace

void finish_latent_qkv(const stream& on, const latent_qkv_args& args) {
  expect(args.cache.is_latent() && args.cache.head_dim == args.cache.value_dim + args.rope_dim
             && args.cache.head_dim <= most_latent_dims && args.nope_dim + args.rope_dim <= most_latent_dims
             && args.rope_dim % 2 == 0,
         "cuda finish_latent_qkv: dimensions of a latent cache, and heads of at most 640");
  const std::size_t shares =
      std::min<std::size_t>((args.heads + latent_qkv_warps) / latent_qkv_warps, most_grid_yz);
  launch("finish_latent_qkv", on,
         {.blocks_x = args.rows, .blocks_y = shares, .threads = latent_qkv_warps * warp_lanes},
         latent_qkv_kernel, args);
}

} // namespace troupe::kernels::cuda
