#include "kernels/cuda/prefill.hpp"

#include <cmath>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/mma.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned prefill_warps = 4;
constexpr unsigned warp_rows = 16; // of an instruction's left operand
constexpr unsigned block_rows = prefill_warps * warp_rows;
constexpr unsigned chunk_keys = 32;
constexpr unsigned row_padding = 8; // elements, so that eight rows of shared memory lie in different banks

// What a block holds in shared memory: rows of `Dims` numbers and their padding.
template <unsigned Dims>
struct prefill_shared {
  static constexpr unsigned stride = Dims + row_padding;

  bfloat16 query[block_rows][stride];
  bfloat16 keys[chunk_keys][stride];
  bfloat16 values[chunk_keys][stride];
  float key_scales[chunk_keys];
  float value_scales[chunk_keys];
};

__device__ inline std::uint32_t pair_at(const bfloat16* from) {
  return *reinterpret_cast<const std::uint32_t*>(from);
}

__device__ inline void store_piece(bfloat16* to, const bits128& piece) {
  *reinterpret_cast<bits128*>(to) = piece;
}

// 8 numbers of a cached head as BF16; int8 ones without their scale, which is exact.
__device__ inline bits128 load_piece(const kv_layer& cache, std::size_t offset, unsigned dim) {
  if (cache.type == dtype::bf16)
    return load_again(cache.data + offset + 2 * dim);
  const bits64 bytes = *reinterpret_cast<const bits64*>(cache.data + offset + dim);
  bits128 piece;
  TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const std::uint32_t word = bytes.word[i / 2] >> (16 * (i % 2));
    piece.word[i] = bf16_pair(static_cast<float>(static_cast<std::int8_t>(word)),
                              static_cast<float>(static_cast<std::int8_t>(word >> 8)));
  }
  return piece;
}

// The block's: a chunk of keys and values into shared memory; zeros from `end` on and beyond the head.
template <unsigned Dims>
__device__ void load_chunk(const attention_args& args, const std::uint32_t* table, std::size_t kv_head,
                           std::size_t chunk, std::size_t end, prefill_shared<Dims>& shared) {
  const kv_layer& cache = args.cache;
  constexpr unsigned pieces = Dims / 8;
  for (unsigned i = threadIdx.x; i < chunk_keys * pieces; i += prefill_warps * warp_lanes) {
    const unsigned k = i / pieces;
    const unsigned dim = i % pieces * 8;
    bits128 key{};
    bits128 value{};
    if (chunk + k < end) {
      const std::uint32_t block = table[(chunk + k) / cache.block_tokens];
      TROUPE_DEVICE_CHECK(block < cache.blocks);
      const std::size_t slot = block * cache.block_tokens + (chunk + k) % cache.block_tokens;
      if (dim < cache.head_dim) {
        key = load_piece(cache, cache.key_offset(slot, kv_head), dim);
        value = load_piece(cache, cache.value_offset(slot, kv_head), dim);
      }
      if (dim == 0 && cache.type == dtype::int8) {
        shared.key_scales[k] =
            *reinterpret_cast<const float*>(cache.data + cache.key_scale_offset(slot, kv_head));
        shared.value_scales[k] =
            *reinterpret_cast<const float*>(cache.data + cache.value_scale_offset(slot, kv_head));
      }
    }
    if (dim == 0 && (cache.type != dtype::int8 || chunk + k >= end)) {
      shared.key_scales[k] = 1.0F;
      shared.value_scales[k] = 1.0F;
    }
    store_piece(&shared.keys[k][dim], key);
    store_piece(&shared.values[k][dim], value);
  }
}

// One warp's 16 rows times a chunk of keys: sums as results lie (fragments.hpp's, with rows as channels).
template <unsigned Dims>
__device__ void multiply_keys(const prefill_shared<Dims>& shared, float (&scores)[chunk_keys / 8][4]) {
  const unsigned g = lane_index() / 4;
  const unsigned c = lane_index() % 4 * 2;
  const bfloat16* lower = shared.query[warp_index() * warp_rows + g];
  const bfloat16* upper = shared.query[warp_index() * warp_rows + g + 8];
  TROUPE_UNROLL
  for (unsigned dim = 0; dim < Dims; dim += 16) {
    const std::uint32_t a[4] = {pair_at(lower + dim + c), pair_at(upper + dim + c),
                                pair_at(lower + dim + c + 8), pair_at(upper + dim + c + 8)};
    TROUPE_UNROLL
    for (unsigned n = 0; n < chunk_keys / 8; ++n) {
      const bfloat16* key = shared.keys[n * 8 + g];
      multiply_add(scores[n], a, pair_at(key + dim + c), pair_at(key + dim + c + 8));
    }
  }
}

// sums += p · values; p as results of `multiply_keys` lie, rounded to BF16 here.
template <unsigned Dims>
__device__ void multiply_values(const prefill_shared<Dims>& shared, const float (&p)[chunk_keys / 8][4],
                                float (&sums)[Dims / 8][4]) {
  const unsigned g = lane_index() / 4;
  const unsigned c = lane_index() % 4 * 2;
  TROUPE_UNROLL
  for (unsigned k = 0; k < chunk_keys; k += 16) {
    const auto& left = p[k / 8];
    const auto& right = p[k / 8 + 1];
    const std::uint32_t a[4] = {bf16_pair(left[0], left[1]), bf16_pair(left[2], left[3]),
                                bf16_pair(right[0], right[1]), bf16_pair(right[2], right[3])};
    TROUPE_UNROLL
    for (unsigned n = 0; n < Dims / 8; ++n) {
      const auto value = [&](unsigned key) {
        return static_cast<std::uint32_t>(shared.values[k + key][n * 8 + g].bits);
      };
      multiply_add(sums[n], a, value(c) | value(c + 1) << 16, value(c + 8) | value(c + 9) << 16);
    }
  }
}

// x: KV head, y: block of 64 (row, head of the group) pairs of a run, z: run.
template <unsigned Dims>
__global__ void __launch_bounds__(prefill_warps * 32)
    prefill_kernel(prefill_args all, std::size_t first_run) {
  auto& shared = *dynamic_shared<prefill_shared<Dims>>();
  const attention_args& args = all.attention;
  const kv_layer& cache = args.cache;
  const row_run run = all.runs[first_run + blockIdx.z];
  const auto group = static_cast<unsigned>(args.heads / cache.kv_heads);
  const std::size_t kv_head = blockIdx.x;
  const unsigned first_pair = blockIdx.y * block_rows;
  const unsigned pairs = run.rows * group;
  if (first_pair >= pairs)
    return;
  const unsigned last_pair =
      (pairs - first_pair < block_rows ? pairs - first_pair : block_rows) + first_pair - 1;
  TROUPE_DEVICE_CHECK(run.first_row + run.rows <= args.rows);
  TROUPE_DEVICE_CHECK(run.sequence < args.num_sequences);
  TROUPE_DEVICE_CHECK((run.position + run.rows - 1) / cache.block_tokens < args.table_width);
  const std::uint32_t* table = args.block_tables + run.sequence * args.table_width;
  const auto end_of = [&](unsigned pair) { return std::size_t{run.position} + pair / group + 1; };
  const auto first_seen = [&](std::size_t end) {
    return args.sliding_window != 0 && end > args.sliding_window ? end - args.sliding_window : 0;
  };
  const auto head_row = [&](unsigned pair) {
    return (std::size_t{run.first_row} + pair / group) * args.heads + kv_head * group + pair % group;
  };

  for (unsigned i = threadIdx.x; i < block_rows * (Dims / 8); i += prefill_warps * warp_lanes) {
    const unsigned pair = first_pair + i / (Dims / 8);
    const unsigned dim = i % (Dims / 8) * 8;
    bits128 piece{};
    if (pair < pairs && dim < cache.head_dim)
      piece = load_again(args.query + head_row(pair) * cache.head_dim + dim);
    store_piece(&shared.query[i / (Dims / 8)][dim], piece);
  }

  // A lane has two rows of its warp's 16, and of each two columns of every eight.
  unsigned pair[2];
  std::size_t end[2];
  std::size_t first[2];
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    pair[i] = first_pair + warp_index() * warp_rows + lane_index() / 4 + 8 * i;
    end[i] = pair[i] < pairs ? end_of(pair[i]) : 0; // 0: sees nothing
    first[i] = first_seen(end[i]);
  }
  float most[2] = {-INFINITY, -INFINITY};
  float total[2] = {};
  float sums[Dims / 8][4] = {};
  const std::size_t block_end = end_of(last_pair);
  const std::size_t begin = first_seen(end_of(first_pair)) / chunk_keys * chunk_keys;
  for (std::size_t chunk = begin; chunk < block_end; chunk += chunk_keys) {
    load_chunk(args, table, kv_head, chunk, block_end, shared);
    block_barrier();
    float scores[chunk_keys / 8][4] = {};
    multiply_keys(shared, scores);
    float highest[2] = {most[0], most[1]};
    TROUPE_UNROLL
    for (unsigned n = 0; n < chunk_keys / 8; ++n)
      TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned k = n * 8 + lane_index() % 4 * 2 + i % 2;
      const bool seen = chunk + k >= first[i / 2] && chunk + k < end[i / 2];
      scores[n][i] = seen ? scores[n][i] * (args.scale * shared.key_scales[k]) : -INFINITY;
      highest[i / 2] = fmaxf(highest[i / 2], scores[n][i]);
    }
    float shrink[2];
    TROUPE_UNROLL
    for (unsigned i = 0; i < 2; ++i) {
      highest[i] =
          fmaxf(highest[i], shuffle_xor(highest[i], 1)); // the row's other columns are in three more lanes
      highest[i] = fmaxf(highest[i], shuffle_xor(highest[i], 2));
      shrink[i] = highest[i] == -INFINITY ? 1.0F : expf(most[i] - highest[i]);
      most[i] = highest[i];
      total[i] *= shrink[i];
    }
    TROUPE_UNROLL
    for (unsigned n = 0; n < chunk_keys / 8; ++n)
      TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i) {
      const unsigned k = n * 8 + lane_index() % 4 * 2 + i % 2;
      const float p = scores[n][i] == -INFINITY ? 0.0F : expf(scores[n][i] - most[i / 2]);
      total[i / 2] += p;
      scores[n][i] = p * shared.value_scales[k];
    }
    TROUPE_UNROLL
    for (unsigned n = 0; n < Dims / 8; ++n)
      TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      sums[n][i] *= shrink[i / 2];
    multiply_values(shared, scores, sums);
    block_barrier();
  }

  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    total[i] += shuffle_xor(total[i], 1);
    total[i] += shuffle_xor(total[i], 2);
    if (pair[i] >= pairs)
      continue;
    float factor = 1.0F;
    if (args.sinks != nullptr) {
      const float sink = args.sinks[kv_head * group + pair[i] % group];
      const float highest = fmaxf(most[i], sink);
      factor = expf(most[i] - highest);
      total[i] = fmaf(total[i], factor, expf(sink - highest));
    }
    bfloat16* to = args.output + head_row(pair[i]) * cache.head_dim;
    TROUPE_UNROLL
    for (unsigned n = 0; n < Dims / 8; ++n)
      TROUPE_UNROLL
    for (unsigned j = 0; j < 2; ++j) {
      const unsigned dim = n * 8 + lane_index() % 4 * 2 + j;
      if (dim < cache.head_dim)
        to[dim] = round_bf16(sums[n][2 * i + j] * factor / total[i]);
    }
  }
}

template <unsigned Dims>
void start(const stream& on, const prefill_args& args) {
  const std::size_t group = args.attention.heads / args.attention.cache.kv_heads;
  const std::size_t blocks = (args.most_rows * group + block_rows - 1) / block_rows;
  for (std::size_t first = 0; first < args.num_runs; first += most_grid_yz) {
    const std::size_t runs = args.num_runs - first < most_grid_yz ? args.num_runs - first : most_grid_yz;
    launch("prefill", on,
           {.blocks_x = args.attention.cache.kv_heads,
            .blocks_y = blocks,
            .blocks_z = runs,
            .threads = prefill_warps * 32,
            .shared_bytes = sizeof(prefill_shared<Dims>)},
           prefill_kernel<Dims>, args, first);
  }
}

} // namespace

void prefill(const stream& on, const prefill_args& args) {
  const kv_layer& cache = args.attention.cache;
  expect(cache.kv_heads != 0 && args.attention.heads % cache.kv_heads == 0,
         "cuda prefill: heads are not a multiple of the KV heads");
  expect(cache.head_dim % 8 == 0 && cache.head_dim <= 256,
         "cuda prefill: head_dim is not a multiple of 8 up to 256");
  if (cache.head_dim <= 64)
    start<64>(on, args);
  else if (cache.head_dim <= 128)
    start<128>(on, args);
  else
    start<256>(on, args);
}

} // namespace troupe::kernels::cuda
