#include "kernels/cuda/latent_attention.hpp"

#include <bit>

#include "kernels/cuda/attention_parts.cuh"
#include "kernels/error.hpp"
#include "kernels/kv_limits.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned group_warps = 4; // that share 16 pairs
constexpr unsigned most_groups = most_pairs_of_block / warp_pairs;
constexpr unsigned warp_dims = static_cast<unsigned>(most_latent_values) / group_warps;
static_assert(group_warps == score_tiles); // a warp multiplies one tile of 8 keys

// A block's shared memory: a ring of chunks of keys, the queries, and a chunk's scores, which the warps of a
// group exchange: lane l of every warp has the same two pairs. Rows are padded by 16 bytes, as in kv_ring.
template <unsigned Dims, unsigned Groups>
struct latent_shared {
  static constexpr unsigned stride = Dims + 8;

  alignas(16) bfloat16 keys[chunk_stages][chunk_keys][stride];
  alignas(16) bfloat16 query[Groups * warp_pairs][stride];
  bits128 scores[Groups][score_tiles][warp_lanes];
};

static_assert(sizeof(latent_shared<most_latent_dims, most_groups>) <= std::size_t{227} << 10);

// Dimensions of keys and queries in shared memory: those beyond head_dim are zeros.
__device__ unsigned padded_dims(const kv_layer& cache) {
  return (static_cast<unsigned>(cache.head_dim) + 31) / 32 * 32;
}

// Starts copying positions chunk to chunk + 31, by all threads of the block.
template <unsigned Threads, unsigned Stride>
__device__ void fetch_keys(const kv_layer& cache, const kv_range& range, std::uint32_t chunk,
                           bfloat16 (&to)[chunk_keys][Stride]) {
  const unsigned pieces = padded_dims(cache) / piece_dims;
  for (unsigned i = threadIdx.x; i < chunk_keys * pieces; i += Threads) {
    const unsigned k = i / pieces;
    const unsigned dim = i % pieces * piece_dims;
    const std::uint32_t key = range.nearest(chunk + k);
    const bool wanted = key == chunk + k && dim < cache.head_dim;
    copy_async<piece_dims * sizeof(bfloat16)>(&to[k][dim],
                                              range.block_of(cache, key)
                                                  + cache.key_in_block(range.token_of(key), range.kv_head)
                                                  + (wanted ? dim * sizeof(bfloat16) : 0),
                                              wanted);
  }
}

// Copies the block's queries, zeros for pairs that do not exist, by all threads of the block.
template <unsigned Threads, unsigned Pairs, unsigned Stride, class PlaceOf>
__device__ void load_queries(const attention_args& args, const PlaceOf& place_of,
                             bfloat16 (&to)[Pairs][Stride]) {
  const unsigned pieces = padded_dims(args.cache) / piece_dims;
  for (unsigned i = threadIdx.x; i < Pairs * pieces; i += Threads) {
    const unsigned dim = i % pieces * piece_dims;
    const pair_place pair = place_of(i / pieces);
    bits128 piece{};
    if (pair.end != 0 && dim < args.cache.head_dim)
      piece = *reinterpret_cast<const bits128*>(
          args.query + (pair.row * args.heads + pair.head) * args.cache.head_dim + dim);
    *reinterpret_cast<bits128*>(&to[i / pieces][dim]) = piece;
  }
}

// scores = query · keysᵀ of 16 pairs and 8 keys
template <unsigned Stride>
__device__ void multiply_8_keys(const bfloat16 (*query)[Stride], const bfloat16 (*keys)[Stride],
                                unsigned dims, float (&scores)[4]) {
  const unsigned lane = lane_index();
  for (unsigned dim = 0; dim < dims; dim += 32) {
    std::uint32_t b[4];
    load_matrices(&keys[lane % 8][dim + lane / 8 * 8], b);
    TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      std::uint32_t a[4];
      load_matrices(&query[lane % 16][dim + half * 16 + lane / 16 * 8], a);
      multiply_add(scores, a, b[2 * half], b[2 * half + 1]);
    }
  }
}

// x: part of the run's pairs, y: span, z: run. Four warps have 16 pairs (row, head): each multiplies a
// quarter of a chunk's keys with the queries, and, once all scores are exchanged, all keys' probabilities
// with a quarter of the values' dimensions. The result of 16 pairs does not depend on the number of groups.
template <unsigned Dims, unsigned Groups>
__global__ void __launch_bounds__(Groups* group_warps* warp_lanes)
    latent_kernel(attention_args args, std::size_t first_run, unsigned block_shift) {
  constexpr unsigned threads = Groups * group_warps * warp_lanes;
  constexpr unsigned block_pairs = Groups * warp_pairs;
  auto& shared = *dynamic_shared<latent_shared<Dims, Groups>>();
  const kv_layer& cache = args.cache;
  const row_run run = args.runs[first_run + blockIdx.z];
  const auto heads = static_cast<unsigned>(args.heads);
  const unsigned pairs = run.rows * heads;
  const unsigned first_pair = blockIdx.x * block_pairs;
  if (first_pair >= pairs)
    return;
  const unsigned num_pairs = pairs - first_pair < block_pairs ? pairs - first_pair : block_pairs;
  TROUPE_DEVICE_CHECK(run.first_row >= args.first_row
                      && run.first_row + run.rows <= args.first_row + args.rows);
  TROUPE_DEVICE_CHECK(run.sequence < args.num_sequences);
  TROUPE_DEVICE_CHECK(run.position + run.rows - 1 <= args.most_position);
  TROUPE_DEVICE_CHECK(((run.position + run.rows - 1) >> block_shift) < args.table_width);

  const auto place_of = [&](unsigned pair) { // of the block
    pair += first_pair;
    if (pair >= pairs)
      return pair_place{run.first_row, 0, 0};
    return pair_place{std::size_t{run.first_row} + pair / heads, pair % heads,
                      run.position + pair / heads + 1};
  };
  const unsigned group = warp_index() / group_warps;
  const unsigned part = warp_index() % group_warps;
  const auto of_lane = [&](unsigned i) { return place_of(group * warp_pairs + lane_index() / 4 + 8 * i); };
  const kv_range range{.table = args.block_tables + run.sequence * args.table_width,
                       .kv_head = 0,
                       .first = first_seen(args, place_of(0).end),
                       .end = place_of(num_pairs - 1).end,
                       .block_shift = block_shift};
  const std::uint32_t span = blockIdx.y * static_cast<std::uint32_t>(span_keys);
  const std::uint32_t span_end = span + static_cast<std::uint32_t>(span_keys);
  const std::uint32_t begin = range.first > span ? range.first / chunk_keys * chunk_keys : span;
  const std::uint32_t end = range.end < span_end ? range.end : span_end;
  if (begin >= end)
    return; // joining leaves it out, too

  const unsigned chunks = (end - begin + chunk_keys - 1) / chunk_keys;
  const auto fetch = [&](unsigned c) {
    if (c < chunks)
      fetch_keys<threads>(cache, range, begin + c * chunk_keys, shared.keys[c % chunk_stages]);
    end_copy_group();
  };
  TROUPE_UNROLL
  for (unsigned c = 0; c + 1 < chunk_stages; ++c)
    fetch(c);
  load_queries<threads>(args, place_of, shared.query);
  softmax_state<warp_dims> state;
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    state.end[i] = of_lane(i).end;
    state.first[i] = first_seen(args, state.end[i]);
  }
  const float scale = args.scale * log2_e;
  const auto value_dim = static_cast<unsigned>(cache.value_dim);
  for (unsigned c = 0; c < chunks; ++c) {
    wait_for_copies<chunk_stages - 2>();
    block_barrier(); // chunk c has arrived for all, and chunk c − 1, whose place is filled now, is done
    fetch(c + chunk_stages - 1);
    const auto& keys = shared.keys[c % chunk_stages];
    float own[4] = {};
    multiply_8_keys(&shared.query[group * warp_pairs], &keys[part * 8], padded_dims(cache), own);
    shared.scores[group][part][lane_index()] = {
        {std::bit_cast<std::uint32_t>(own[0]), std::bit_cast<std::uint32_t>(own[1]),
         std::bit_cast<std::uint32_t>(own[2]), std::bit_cast<std::uint32_t>(own[3])}};
    block_barrier(); // all scores are there; the next ones are written after the next barrier above
    float scores[score_tiles][4];
    TROUPE_UNROLL
    for (unsigned n = 0; n < score_tiles; ++n) {
      const bits128 of_tile = shared.scores[group][n][lane_index()];
      TROUPE_UNROLL
      for (unsigned i = 0; i < 4; ++i)
        scores[n][i] = std::bit_cast<float>(of_tile.word[i]);
    }
    apply_softmax(
        state, begin + c * chunk_keys, scale, [](unsigned) { return 1.0F; }, scores);
    multiply_values<warp_dims>(scores, keys, part * warp_dims, value_dim, state.sums);
  }

  join_totals(state);
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    const pair_place pair = of_lane(i);
    if (state.end[i] <= span || state.first[i] >= span_end)
      continue; // sees nothing in this span
    const std::size_t at = ((pair.row - args.first_row) * args.heads + pair.head) * gridDim.y + blockIdx.y;
    store_partial(state, i, part * warp_dims, value_dim,
                  args.workspace + at * (cache.value_dim + partial_extra));
  }
}

template <unsigned Dims, unsigned Groups>
void start_latent(const stream& on, const attention_args& args) {
  const std::size_t pairs = args.most_run_rows * args.heads;
  const auto block_shift = static_cast<unsigned>(std::countr_zero(args.cache.block_tokens));
  for (std::size_t first = 0; first < args.num_runs; first += most_grid_yz)
    launch("latent attention", on,
           {.blocks_x = (pairs + Groups * warp_pairs - 1) / (Groups * warp_pairs),
            .blocks_y = spans_of(args.most_position),
            .blocks_z = args.num_runs - first < most_grid_yz ? args.num_runs - first : most_grid_yz,
            .threads = Groups * group_warps * warp_lanes,
            .shared_bytes = sizeof(latent_shared<Dims, Groups>)},
           latent_kernel<Dims, Groups>, args, first, block_shift);
}

template <unsigned Dims>
void start_latent(const stream& on, const attention_args& args) {
  if (args.most_run_rows * args.heads <= warp_pairs)
    start_latent<Dims, 1>(on, args);
  else
    start_latent<Dims, most_groups>(on, args);
}

} // namespace

void latent_spans(const stream& on, const attention_args& args) {
  const kv_layer& cache = args.cache;
  expect(cache.kv_heads == 1 && cache.type == dtype::bf16,
         "cuda attention: a latent cache is not one KV head in bf16");
  expect(cache.value_dim <= cache.head_dim && cache.value_dim <= most_latent_values
             && cache.value_dim % piece_dims == 0,
         "cuda attention: value_dim is not a multiple of 8 up to head_dim and 512");
  if (cache.head_dim <= 576)
    start_latent<576>(on, args);
  else
    start_latent<most_latent_dims>(on, args);
}

} // namespace troupe::kernels::cuda
