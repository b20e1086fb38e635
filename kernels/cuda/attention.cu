#include "kernels/cuda/attention.hpp"

#include <algorithm>
#include <bit>

#include "kernels/cuda/attention_parts.cuh"
#include "kernels/cuda/latent_attention.hpp"
#include "kernels/error.hpp"
#include "kernels/kv_limits.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr std::size_t join_threads = 256; // at most
constexpr unsigned most_warps = most_pairs_of_block / warp_pairs;

// A lane's part of its warp's 16 pairs.
template <unsigned Dims>
struct warp_state : softmax_state<Dims> {
  std::uint32_t query[Dims / 16][4]; // left operands
};

// scores = query · keysᵀ
template <unsigned Dims>
__device__ void multiply_keys(const warp_state<Dims>& state, const bf16_chunk<Dims>& chunk,
                              float (&scores)[score_tiles][4]) {
  const unsigned lane = lane_index();
  TROUPE_UNROLL
  for (unsigned dim = 0; dim < Dims; dim += 32)
    TROUPE_UNROLL
  for (unsigned n = 0; n < score_tiles; ++n) {
    std::uint32_t keys[4];
    load_matrices(&chunk.keys[n * 8 + lane % 8][dim + lane / 8 * 8], keys);
    multiply_add(scores[n], state.query[dim / 16], keys[0], keys[1]);
    multiply_add(scores[n], state.query[dim / 16 + 1], keys[2], keys[3]);
  }
}

// The queries of the lane's two pairs as left operands, and their visible keys.
/// @param pair_of  pair i of the lane
template <unsigned Dims, class PairOf>
__device__ void load_query(const attention_args& args, const PairOf& pair_of, warp_state<Dims>& state) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const pair_place pair = pair_of(i);
    state.end[i] = pair.end;
    state.first[i] = first_seen(args, pair.end);
    const bfloat16* from = args.query + (pair.row * args.heads + pair.head) * args.cache.head_dim;
    TROUPE_UNROLL
    for (unsigned piece = 0; piece < Dims / 8; ++piece) { // of 8 dimensions, two in each of four lanes
      const unsigned dim = piece * 8 + lane_index() % 4 * 2;
      std::uint32_t two = 0;
      if (pair.end != 0 && dim < args.cache.head_dim)
        two = *reinterpret_cast<const std::uint32_t*>(from + dim);
      state.query[piece / 2][piece % 2 * 2 + i] = two;
    }
  }
}

// x: (part of the run's pairs, KV head), y: span, z: run. A warp has 16 pairs (row, head of the group); the
// warps of a block share the keys. A warp's result does not depend on the number of warps.
template <unsigned Dims, bool IsInt8, unsigned Warps>
__global__ void __launch_bounds__(Warps* warp_lanes)
    attention_kernel(attention_args args, std::size_t first_run, unsigned block_shift) {
  constexpr unsigned threads = Warps * warp_lanes;
  auto& ring = *dynamic_shared<kv_ring<Dims, IsInt8>>();
  const kv_layer& cache = args.cache;
  const row_run run = args.runs[first_run + blockIdx.z];
  const auto group = static_cast<unsigned>(args.heads / cache.kv_heads);
  const unsigned pairs = run.rows * group;
  const auto kv_heads = static_cast<unsigned>(cache.kv_heads);
  const std::size_t kv_head = blockIdx.x % kv_heads;
  const unsigned first_pair = blockIdx.x / kv_heads * (Warps * warp_pairs);
  if (first_pair >= pairs)
    return;
  const unsigned num_pairs =
      pairs - first_pair < Warps * warp_pairs ? pairs - first_pair : Warps * warp_pairs;
  TROUPE_DEVICE_CHECK(run.first_row >= args.first_row
                      && run.first_row + run.rows <= args.first_row + args.rows);
  TROUPE_DEVICE_CHECK(run.sequence < args.num_sequences);
  TROUPE_DEVICE_CHECK(run.position + run.rows - 1 <= args.most_position);
  TROUPE_DEVICE_CHECK(((run.position + run.rows - 1) >> block_shift) < args.table_width);

  const auto place_of = [&](unsigned pair) {
    if (pair >= pairs)
      return pair_place{run.first_row, kv_head * group, 0};
    return pair_place{std::size_t{run.first_row} + pair / group, kv_head * group + pair % group,
                      run.position + pair / group + 1};
  };
  const auto of_lane = [&](unsigned i) {
    return place_of(first_pair + warp_index() * warp_pairs + lane_index() / 4 + 8 * i);
  };
  const kv_range range{.table = args.block_tables + run.sequence * args.table_width,
                       .kv_head = kv_head,
                       .first = first_seen(args, place_of(first_pair).end),
                       .end = place_of(first_pair + num_pairs - 1).end,
                       .block_shift = block_shift};
  const std::uint32_t span = blockIdx.y * static_cast<std::uint32_t>(span_keys);
  const std::uint32_t span_end = span + static_cast<std::uint32_t>(span_keys);
  const std::uint32_t begin = range.first > span ? range.first / chunk_keys * chunk_keys : span;
  const std::uint32_t end = range.end < span_end ? range.end : span_end;
  if (begin >= end)
    return; // joining leaves it out, too

  const auto meet = [] {
    if constexpr (Warps == 1)
      warp_barrier();
    else
      block_barrier();
  };
  const unsigned chunks = (end - begin + chunk_keys - 1) / chunk_keys;
  const auto fetch = [&](unsigned c) {
    if (c < chunks)
      fetch_chunk<threads>(cache, range, begin + c * chunk_keys, c % chunk_stages, ring);
    end_copy_group();
  };
  TROUPE_UNROLL
  for (unsigned c = 0; c + 1 < chunk_stages; ++c)
    fetch(c);
  warp_state<Dims> state;
  load_query(args, of_lane, state);
  const float scale = args.scale * log2_e;
  for (unsigned c = 0; c < chunks; ++c) {
    const std::uint32_t chunk = begin + c * chunk_keys;
    wait_for_copies<chunk_stages - 2>();
    meet(); // chunk c has arrived for all, and chunk c − 1, whose place is filled now, is done
    fetch(c + chunk_stages - 1);
    const auto& stage = ring.stages[c % chunk_stages];
    float scores[score_tiles][4] = {};
    if constexpr (IsInt8) {
      widen_chunk<threads>(stage, ring.widened);
      meet();
      multiply_keys(state, ring.widened, scores);
      apply_softmax(
          state, chunk, scale, [&](unsigned k) { return stage.key_scales[k]; }, scores);
      TROUPE_UNROLL
      for (unsigned n = 0; n < score_tiles; ++n)
        TROUPE_UNROLL
      for (unsigned i = 0; i < 4; ++i)
        scores[n][i] *= stage.value_scales[n * 8 + lane_index() % 4 * 2 + i % 2];
      multiply_values<Dims>(scores, ring.widened.values, 0, Dims, state.sums);
    } else {
      multiply_keys(state, stage, scores);
      apply_softmax(
          state, chunk, scale, [](unsigned) { return 1.0F; }, scores);
      multiply_values<Dims>(scores, stage.values, 0, Dims, state.sums);
    }
  }

  join_totals(state);
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const pair_place pair = of_lane(i);
    if (state.end[i] <= span || state.first[i] >= span_end)
      continue; // sees nothing in this span
    const std::size_t at = ((pair.row - args.first_row) * args.heads + pair.head) * gridDim.y + blockIdx.y;
    store_partial(state, i, 0, cache.head_dim, args.workspace + at * (cache.head_dim + partial_extra));
  }
}

// A block joins the spans of one head of one row, in order, one thread per dimension. x: row, y: head, z:
// part of the dimensions.
__global__ void __launch_bounds__(join_threads) join_spans_kernel(attention_args args, std::size_t spans) {
  constexpr std::size_t ahead = 8; // loads under way at a time
  const std::size_t dims = args.cache.value_width();
  const std::size_t row = blockIdx.x;
  const std::size_t head = blockIdx.y;
  const std::uint32_t end = args.positions[args.first_row + row] + 1;
  const std::size_t first = first_seen(args, end) / span_keys;
  const std::size_t last = (end - 1) / span_keys;
  TROUPE_DEVICE_CHECK(last < spans);
  const float* partials = args.workspace + (row * args.heads + head) * spans * (dims + partial_extra);
  const auto partial = [&](std::size_t span) {
    return partials + (span < last ? span : last) * (dims + partial_extra);
  };
  const std::size_t own = blockIdx.z * join_threads + threadIdx.x;
  const std::size_t dim = own < dims ? own : dims - 1;
  const float sink = args.sinks != nullptr ? args.sinks[head] * log2_e : -INFINITY;
  float most = sink;
  for (std::size_t span = first; span <= last; span += ahead)
    TROUPE_UNROLL
  for (std::size_t u = 0; u < ahead; ++u)
    most = fmaxf(most, partial(span + u)[0]);
  float sum = args.sinks != nullptr ? power_of_2(sink - most) : 0.0F;
  float value = 0.0F;
  for (std::size_t span = first; span <= last; span += ahead) {
    float of[ahead][3];
    TROUPE_UNROLL
    for (std::size_t u = 0; u < ahead; ++u) {
      const float* from = partial(span + u);
      of[u][0] = from[0];
      of[u][1] = from[1];
      of[u][2] = from[partial_extra + dim];
    }
    TROUPE_UNROLL
    for (std::size_t u = 0; u < ahead; ++u) {
      const float weight = span + u <= last ? power_of_2(of[u][0] - most) : 0.0F;
      sum = fmaf(of[u][1], weight, sum);
      value = fmaf(of[u][2], weight, value);
    }
  }
  if (own < dims)
    args.output[((args.first_row + row) * args.heads + head) * dims + own] = round_bf16(value / sum);
}

template <unsigned Dims, bool IsInt8, unsigned Warps>
void start(const stream& on, const attention_args& args) {
  const kv_layer& cache = args.cache;
  const std::size_t pairs = args.most_run_rows * (args.heads / cache.kv_heads);
  const std::size_t parts = (pairs + Warps * warp_pairs - 1) / (Warps * warp_pairs);
  const auto block_shift = static_cast<unsigned>(std::countr_zero(cache.block_tokens));
  for (std::size_t first = 0; first < args.num_runs; first += most_grid_yz)
    launch("attention", on,
           {.blocks_x = cache.kv_heads * parts,
            .blocks_y = spans_of(args.most_position),
            .blocks_z = args.num_runs - first < most_grid_yz ? args.num_runs - first : most_grid_yz,
            .threads = Warps * warp_lanes,
            .shared_bytes = sizeof(kv_ring<Dims, IsInt8>)},
           attention_kernel<Dims, IsInt8, Warps>, args, first, block_shift);
}

template <unsigned Dims, bool IsInt8>
void start(const stream& on, const attention_args& args) {
  if (args.most_run_rows * (args.heads / args.cache.kv_heads) <= warp_pairs)
    start<Dims, IsInt8, 1>(on, args);
  else
    start<Dims, IsInt8, most_warps>(on, args);
}

template <unsigned Dims>
void start(const stream& on, const attention_args& args) {
  if (args.cache.type == dtype::int8)
    start<Dims, true>(on, args);
  else
    start<Dims, false>(on, args);
}

} // namespace

std::size_t attention_workspace_floats(const attention_args& args) {
  return args.rows * args.heads * spans_of(args.most_position) * (args.cache.value_width() + partial_extra);
}

void attention(const stream& on, const attention_args& args) {
  if (args.rows == 0)
    return;
  const kv_layer& cache = args.cache;
  expect(cache.kv_heads != 0 && args.heads % cache.kv_heads == 0,
         "cuda attention: heads are not a multiple of the KV heads");
  expect(cache.head_dim != 0 && cache.head_dim % piece_dims == 0
             && cache.head_dim <= (cache.is_latent() ? most_latent_dims : most_head_dim),
         "cuda attention: head_dim is not a multiple of 8 up to 256, latent 640");
  expect(args.chunk == 0 || args.sliding_window == 0, "cuda attention: both a chunk and a sliding window");
  expect(std::has_single_bit(cache.block_tokens), "cuda attention: a block's tokens are not a power of two");
  expect(args.num_runs != 0 && args.most_run_rows != 0, "cuda attention: rows without runs");
  if (cache.is_latent())
    latent_spans(on, args);
  else if (cache.head_dim <= 64)
    start<64>(on, args);
  else if (cache.head_dim <= 128)
    start<128>(on, args);
  else
    start<256>(on, args);
  const std::size_t width = cache.value_width();
  launch("attention: joining spans", on,
         {.blocks_x = args.rows,
          .blocks_y = args.heads,
          .blocks_z = (width + join_threads - 1) / join_threads,
          .threads = static_cast<unsigned>(
              std::min((width + warp_lanes - 1) / warp_lanes * warp_lanes, join_threads))},
         join_spans_kernel, args, spans_of(args.most_position));
}

} // namespace troupe::kernels::cuda
