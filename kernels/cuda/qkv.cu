#include "kernels/cuda/qkv.hpp"

#include <algorithm>
#include <cmath>

#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/warp.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned qkv_warps = 8;
constexpr std::size_t most_head_dim = 256;

__device__ float load_qkv(const qkv_args& args, std::size_t row, std::size_t column) {
  const float x = args.qkv[row * args.stride + column];
  return args.bias != nullptr ? x + args.bias[column] : x;
}

__device__ float inverse_rms(float squares, std::size_t count, float epsilon) {
  return 1.0F / sqrtf(squares / static_cast<float>(count) + epsilon);
}

// The block's: 1 / rms over columns `begin` to `end` of the row.
__device__ float row_factor(const qkv_args& args, std::size_t row, std::size_t begin, std::size_t end,
                            float* scratch) {
  float squares = 0.0F;
  for (std::size_t i = begin + threadIdx.x; i < end; i += qkv_warps * warp_lanes) {
    const float x = load_qkv(args, row, i);
    squares = fmaf(x, x, squares);
  }
  return inverse_rms(block_sum(squares, scratch), end - begin, args.epsilon);
}

// One warp: rotates pairs of a head in shared memory.
__device__ void rotate(const qkv_args& args, std::size_t position, float* head) {
  const std::size_t pairs = args.rotary_dim / 2;
  for (std::size_t i = lane_index(); i < pairs; i += warp_lanes) {
    const std::size_t first = args.style == rope_style::rotate_half ? i : 2 * i;
    const std::size_t second = args.style == rope_style::rotate_half ? i + pairs : 2 * i + 1;
    const float cosine = args.cosines[position * pairs + i];
    const float sine = args.sines[position * pairs + i];
    const float a = head[first];
    const float b = head[second];
    head[first] = fmaf(a, cosine, -(b * sine));
    head[second] = fmaf(b, cosine, a * sine);
  }
}

// One warp: a head into the cache, as its type.
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
  const auto is_whole = [](const head_norm& norm) { return norm.weight != nullptr && !norm.per_head; };
  return is_whole(args.query_norm) || is_whole(args.key_norm);
}

// x = row, y = a share of its heads, one a warp at a time.
__global__ void __launch_bounds__(qkv_warps * 32) qkv_kernel(qkv_args args) {
  __shared__ float heads[qkv_warps][most_head_dim];
  __shared__ float scratch[2][warp_lanes];
  const std::size_t row = blockIdx.x;
  const std::size_t dim = args.cache.head_dim;
  const std::size_t kv_heads = args.cache.kv_heads;
  const std::size_t key_column = args.heads * dim;
  const std::size_t value_column = key_column + kv_heads * dim;
  const std::size_t position = args.cosines != nullptr ? args.positions[row] : 0;
  const std::size_t slot = args.slots[row];
  TROUPE_DEVICE_CHECK(args.cosines == nullptr || position < args.num_positions);
  TROUPE_DEVICE_CHECK(slot < args.cache.blocks * args.cache.block_tokens);

  // Norms over whole rows need all threads first.
  float query_factor = 1.0F;
  float key_factor = 1.0F;
  if (args.query_norm.weight != nullptr && !args.query_norm.per_head)
    query_factor = row_factor(args, row, 0, key_column, scratch[0]);
  if (args.key_norm.weight != nullptr && !args.key_norm.per_head)
    key_factor = row_factor(args, row, key_column, value_column, scratch[1]);

  float* head = heads[warp_index()];
  for (std::size_t h = std::size_t{blockIdx.y} * qkv_warps + warp_index(); h < args.heads + 2 * kv_heads;
       h += std::size_t{gridDim.y} * qkv_warps) {
    const bool is_query = h < args.heads;
    const bool is_value = h >= args.heads + kv_heads;
    const head_norm norm = is_query ? args.query_norm : is_value ? head_norm{} : args.key_norm;
    float squares = 0.0F;
    for (std::size_t i = lane_index(); i < dim; i += warp_lanes) {
      head[i] = load_qkv(args, row, h * dim + i);
      squares = fmaf(head[i], head[i], squares);
    }
    if (norm.weight != nullptr) {
      const float of_head = inverse_rms(warp_sum(squares), dim, args.epsilon);
      const float factor = norm.per_head ? of_head : is_query ? query_factor : key_factor;
      const std::size_t first = norm.per_head ? 0 : (is_query ? h : h - args.heads) * dim;
      for (std::size_t i = lane_index(); i < dim; i += warp_lanes)
        head[i] = head[i] * factor * norm.weight[first + i];
    }
    warp_barrier();
    if (!is_value && args.cosines != nullptr)
      rotate(args, position, head);
    warp_barrier();
    if (is_query) {
      for (std::size_t i = lane_index(); i < dim; i += warp_lanes)
        args.query[row * key_column + h * dim + i] = round_bf16(head[i]);
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
  expect(args.cache.head_dim <= most_head_dim && args.rotary_dim <= args.cache.head_dim
             && args.rotary_dim % 2 == 0,
         "cuda finish_qkv: head_dim is above 256 or rotary_dim above head_dim or odd");
  expect(args.cache.type == dtype::bf16 || args.cache.type == dtype::int8,
         "cuda finish_qkv: the cache is not bf16 or int8");
  // A norm over a whole row is computed once: one block has all heads.
  const std::size_t heads = args.heads + 2 * args.cache.kv_heads;
  const std::size_t shares =
      has_whole_norm(args) ? 1 : std::min((heads + qkv_warps - 1) / qkv_warps, most_grid_yz);
  launch("finish_qkv", on, {.blocks_x = args.rows, .blocks_y = shares, .threads = qkv_warps * 32}, qkv_kernel,
         args);
}

} // namespace troupe::kernels::cuda
