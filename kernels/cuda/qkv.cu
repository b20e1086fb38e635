#include "kernels/cuda/qkv.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/rotation.cuh"
#include "kernels/error.hpp"
#include "kernels/kv_limits.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned qkv_warps = 8;

__device__ float load_qkv(const qkv_args& args, std::size_t row, std::size_t column) {
  const float x = args.qkv[row * args.stride + column];
  return args.bias != nullptr ? x + args.bias[column] : x;
}

__device__ float inverse_rms(float squares, std::size_t count, float epsilon) {
  return 1.0F / sqrtf(squares / static_cast<float>(count) + epsilon);
}

// For a block: 1 / rms over columns `begin` to `end` of the row.
__device__ float row_factor(const qkv_args& args, std::size_t row, std::size_t begin, std::size_t end,
                            float* scratch) {
  float squares = 0.0F;
  for (std::size_t i = begin + threadIdx.x; i < end; i += qkv_warps * warp_lanes) {
    const float x = load_qkv(args, row, i);
    squares = fmaf(x, x, squares);
  }
  return inverse_rms(block_sum(squares, scratch), end - begin, args.epsilon);
}

// For a warp: norm of a head in shared memory; each lane has every 32nd element.
// @param of_row       1 / rms of the row, where the norm is over that
// @param head_column  of the head among those of the norm
__device__ void normalize(const head_norm& norm, float epsilon, std::size_t dim, float of_row,
                          std::size_t head_column, float* head) {
  float squares = 0.0F;
  for (std::size_t i = lane_index(); i < dim; i += warp_lanes)
    squares = fmaf(head[i], head[i], squares);
  const float of_head = inverse_rms(warp_sum(squares), dim, epsilon);
  const float factor = norm.per_head ? of_head : of_row;
  const float* weight = norm.weight;
  if (weight != nullptr && !norm.per_head)
    weight += head_column;
  for (std::size_t i = lane_index(); i < dim; i += warp_lanes) {
    const float normal = head[i] * factor;
    head[i] = weight != nullptr ? normal * weight[i] : normal;
  }
}

// For a warp: writes a head to the cache, in its type.
__device__ void store_head(const kv_layer& cache, std::size_t offset, std::size_t scale_offset,
                           const float* head) {
  if (cache.type == dtype::bf16) {
    auto* to = reinterpret_cast<bfloat16*>(cache.data + offset);
    for (std::size_t i = lane_index(); i < cache.head_dim; i += warp_lanes)
      to[i] = round_bf16(head[i]);
    return;
  }
  float most = 0.0F;
  bool finite = true;
  for (std::size_t i = lane_index(); i < cache.head_dim; i += warp_lanes) {
    most = fmaxf(most, fabsf(head[i]));
    finite = finite && fabsf(head[i]) < INFINITY;
  }
  most = warp_max(most);
  finite = ballot(!finite) == 0;
  const float inverse = most > 0.0F ? 127.0F / most : 0.0F;
  auto* to = reinterpret_cast<std::int8_t*>(cache.data + offset);
  for (std::size_t i = lane_index(); i < cache.head_dim; i += warp_lanes)
    to[i] = finite ? static_cast<std::int8_t>(rintf(fminf(127.0F, fmaxf(-127.0F, head[i] * inverse))))
                   : std::int8_t{0};
  if (lane_index() == 0)
    *reinterpret_cast<float*>(cache.data + scale_offset) = finite ? most / 127.0F : NAN;
}

bool has_whole_norm(const qkv_args& args) {
  const auto is_whole = [](const head_norm& norm) { return norm.is_there() && !norm.per_head; };
  return is_whole(args.query_norm) || is_whole(args.key_norm);
}

// x = row, y = a share of its heads, one head per warp at a time.
__global__ void __launch_bounds__(qkv_warps * 32) qkv_kernel(qkv_args args) {
  __shared__ float heads[qkv_warps][most_head_dim];
  __shared__ float scratch[2][warp_lanes];
  const std::size_t row = blockIdx.x;
  const std::size_t dim = args.cache.head_dim;
  const std::size_t kv_heads = args.cache.kv_heads;
  const std::size_t key_column = args.heads * dim;
  const std::size_t value_column = key_column + kv_heads * dim;
  const bool has_position = args.cosines != nullptr || args.query_factors != nullptr;
  const std::size_t position = has_position ? args.positions[row] : 0;
  const std::size_t slot = args.slots[row];
  TROUPE_DEVICE_CHECK(!has_position || position < args.num_positions);
  TROUPE_DEVICE_CHECK(slot < args.cache.blocks * args.cache.block_tokens);

  // Norms over whole rows first need all threads.
  float query_factor = 1.0F;
  float key_factor = 1.0F;
  if (args.query_norm.is_there() && !args.query_norm.per_head)
    query_factor = row_factor(args, row, 0, key_column, scratch[0]);
  if (args.key_norm.is_there() && !args.key_norm.per_head)
    key_factor = row_factor(args, row, key_column, value_column, scratch[1]);

  float* head = heads[warp_index()];
  for (std::size_t h = std::size_t{blockIdx.y} * qkv_warps + warp_index(); h < args.heads + 2 * kv_heads;
       h += std::size_t{gridDim.y} * qkv_warps) {
    const bool is_query = h < args.heads;
    const bool is_value = h >= args.heads + kv_heads;
    const head_norm norm = is_query ? args.query_norm : is_value ? head_norm{} : args.key_norm;
    const float of_row = is_query ? query_factor : key_factor;
    const std::size_t head_column = (is_query ? h : h - args.heads) * dim;
    for (std::size_t i = lane_index(); i < dim; i += warp_lanes)
      head[i] = load_qkv(args, row, h * dim + i);
    if (norm.is_there() && !args.norms_last)
      normalize(norm, args.epsilon, dim, of_row, head_column, head);
    warp_barrier();
    if (!is_value && args.cosines != nullptr)
      rotate_pairs(args.cosines, args.sines, position, args.rotary_dim / 2, args.style,
                   head + args.rotary_first);
    warp_barrier();
    if (norm.is_there() && args.norms_last)
      normalize(norm, args.epsilon, dim, of_row, head_column, head);
    if (is_query) {
      for (std::size_t i = lane_index(); i < dim; i += warp_lanes)
        args.query[row * key_column + h * dim + i] =
            round_bf16(args.query_factors != nullptr ? head[i] * args.query_factors[position] : head[i]);
    } else {
      const std::size_t kv_head = (h - args.heads) % kv_heads;
      if (is_value)
        store_head(args.cache, args.cache.value_offset(slot, kv_head),
                   args.cache.value_scale_offset(slot, kv_head), head);
      else
        store_head(args.cache, args.cache.key_offset(slot, kv_head),
                   args.cache.key_scale_offset(slot, kv_head), head);
    }
    warp_barrier();
  }
}

} // namespace

void finish_qkv(const stream& on, const qkv_args& args) {
  expect(args.cache.head_dim <= most_head_dim && args.rotary_first + args.rotary_dim <= args.cache.head_dim
             && args.rotary_dim % 2 == 0,
         "cuda finish_qkv: head_dim is above 256, or rotary_dim odd or beyond a head");
  expect(!args.norms_last || !has_whole_norm(args),
         "cuda finish_qkv: a norm over a whole row comes before the rotation");
  expect(!args.cache.is_latent() && (args.cache.type == dtype::bf16 || args.cache.type == dtype::int8),
         "cuda finish_qkv: the cache is latent, or not bf16 or int8");
  // A norm over a whole row is computed once, so one block has all heads.
  const std::size_t heads = args.heads + 2 * args.cache.kv_heads;
  const std::size_t shares =
      has_whole_norm(args) ? 1 : std::min((heads + qkv_warps - 1) / qkv_warps, most_grid_yz);
  launch("finish_qkv", on, {.blocks_x = args.rows, .blocks_y = shares, .threads = qkv_warps * 32}, qkv_kernel,
         args);
}

} // namespace troupe::kernels::cuda
