#include "kernels/cuda/attention.hpp"

#include <cmath>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned attention_warps = 4;
constexpr unsigned lane_dims = 8; // of a head, that a lane holds: 16 bytes of BF16

// A partial result of a head in the workspace: maximum, sum, then head_dim weighted sums.
constexpr std::size_t partial_extra = 2;

__device__ inline float exponential(float x) {
#if defined(__CUDACC__)
  return __expf(x);
#else
  return std::exp(x);
#endif
}

__device__ inline void widen(const bits128& from, float (&to)[lane_dims]) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    to[2 * i] = lower_float(from.word[i]);
    to[2 * i + 1] = upper_float(from.word[i]);
  }
}

// 8 dimensions of a cached head, int8 ones without their scale.
__device__ inline void load_dims(const kv_layer& cache, std::size_t offset, unsigned first,
                                 float (&to)[lane_dims]) {
  if (cache.type == dtype::bf16) {
    widen(load_once(cache.data + offset + 2 * first), to);
    return;
  }
  const bits64 from = *reinterpret_cast<const bits64*>(cache.data + offset + first);
  TROUPE_UNROLL
  for (unsigned i = 0; i < lane_dims; ++i)
    to[i] = static_cast<float>(static_cast<std::int8_t>(from.word[i / 4] >> (8 * (i % 4))));
}

__device__ inline float load_scale(const kv_layer& cache, std::size_t offset) {
  return cache.type == dtype::int8 ? *reinterpret_cast<const float*>(cache.data + offset) : 1.0F;
}

// One head of a running softmax: what a lane has of it.
struct running {
  float most = -INFINITY;
  float sum = 0.0F;
};

// A block works through one split of the keys of one row, for up to `Heads` query heads of one KV head.
// `Lanes` lanes share a key, 8 dimensions each: a worker. x: (row, KV head, part of its heads), y: split.
template <unsigned Heads, unsigned Lanes>
__global__ void __launch_bounds__(attention_warps * 32)
    attention_kernel(attention_args args, unsigned parts) {
  constexpr unsigned workers_of_warp = warp_lanes / Lanes;
  constexpr unsigned workers = attention_warps * workers_of_warp;
  constexpr unsigned unroll = Heads > 4 ? 2 : 4;
  __shared__ float states[workers][Heads][Lanes * lane_dims + partial_extra];
  const kv_layer& cache = args.cache;
  const auto group = static_cast<unsigned>(args.heads / cache.kv_heads);
  const std::size_t part = blockIdx.x % parts;
  const std::size_t kv_head = blockIdx.x / parts % cache.kv_heads;
  const std::size_t row = blockIdx.x / parts / cache.kv_heads;
  const std::size_t end = std::size_t{args.positions[row]} + 1;
  const std::size_t first_seen =
      args.sliding_window != 0 && end > args.sliding_window ? end - args.sliding_window : 0;
  const std::size_t split = std::size_t{blockIdx.y} * args.split_keys;
  const std::size_t split_end = split + args.split_keys < end ? split + args.split_keys : end;
  TROUPE_DEVICE_CHECK(end <= args.most_position + 1);
  TROUPE_DEVICE_CHECK(args.sequences[row] < args.num_sequences);
  TROUPE_DEVICE_CHECK((end - 1) / cache.block_tokens < args.table_width);
  if (split >= end || split_end <= first_seen)
    return; // joining leaves it out, too
  const std::uint32_t* table = args.block_tables + args.sequences[row] * args.table_width;

  const unsigned worker = warp_index() * workers_of_warp + lane_index() / Lanes;
  const unsigned dim = lane_index() % Lanes * lane_dims;
  const bool has_dims = dim < cache.head_dim;
  const std::size_t first_head = kv_head * group + part * Heads;
  const unsigned num_heads = group - static_cast<unsigned>(part) * Heads < Heads
                                 ? group - static_cast<unsigned>(part) * Heads
                                 : Heads;

  float query[Heads][lane_dims] = {};
  float value_sums[Heads][lane_dims] = {};
  running state[Heads];
  for (unsigned h = 0; h < Heads; ++h)
    if (h < num_heads && has_dims)
      widen(load_again(args.query + (row * args.heads + first_head + h) * cache.head_dim + dim), query[h]);

  for (std::size_t base = split; base < split_end; base += workers * unroll) {
    float keys[unroll][lane_dims] = {};
    float values[unroll][lane_dims] = {};
    float key_scale[unroll] = {};
    float value_scale[unroll] = {};
    bool seen[unroll] = {};
    TROUPE_UNROLL
    for (unsigned u = 0; u < unroll; ++u) {
      const std::size_t key = base + u * workers + worker;
      seen[u] = key >= first_seen && key < split_end;
      if (!seen[u])
        continue;
      const std::uint32_t block = table[key / cache.block_tokens];
      TROUPE_DEVICE_CHECK(block < cache.blocks);
      const std::size_t slot = block * cache.block_tokens + key % cache.block_tokens;
      key_scale[u] = load_scale(cache, cache.key_scale_offset(slot, kv_head));
      value_scale[u] = load_scale(cache, cache.value_scale_offset(slot, kv_head));
      if (has_dims) {
        load_dims(cache, cache.key_offset(slot, kv_head), dim, keys[u]);
        load_dims(cache, cache.value_offset(slot, kv_head), dim, values[u]);
      }
    }
    TROUPE_UNROLL
    for (unsigned h = 0; h < Heads; ++h) {
      float scores[unroll];
      float most = state[h].most;
      TROUPE_UNROLL
      for (unsigned u = 0; u < unroll; ++u) {
        float dot = 0.0F;
        TROUPE_UNROLL
        for (unsigned i = 0; i < lane_dims; ++i)
          dot = fmaf(query[h][i], keys[u][i], dot);
        TROUPE_UNROLL
        for (unsigned apart = Lanes / 2; apart > 0; apart /= 2)
          dot += shuffle_xor(dot, apart);
        scores[u] = seen[u] ? dot * (args.scale * key_scale[u]) : -INFINITY;
        most = fmaxf(most, scores[u]);
      }
      // Of nothing seen yet the maximum is −∞, and −∞ + ∞ is no number; no branch, for lanes have to meet
      // again.
      const float reference = most == -INFINITY ? 0.0F : most;
      const float shrink = exponential(state[h].most - reference);
      state[h].most = most;
      state[h].sum *= shrink;
      TROUPE_UNROLL
      for (unsigned i = 0; i < lane_dims; ++i)
        value_sums[h][i] *= shrink;
      TROUPE_UNROLL
      for (unsigned u = 0; u < unroll; ++u) {
        const float p = exponential(scores[u] - reference); // 0 where not seen, and so are the values
        state[h].sum += p;
        const float weight = p * value_scale[u];
        TROUPE_UNROLL
        for (unsigned i = 0; i < lane_dims; ++i)
          value_sums[h][i] = fmaf(weight, values[u][i], value_sums[h][i]);
      }
    }
  }

  TROUPE_UNROLL
  for (unsigned h = 0; h < Heads; ++h) {
    float* to = states[worker][h];
    if (lane_index() % Lanes == 0) {
      to[0] = state[h].most;
      to[1] = state[h].sum;
    }
    TROUPE_UNROLL
    for (unsigned i = 0; i < lane_dims; ++i)
      to[partial_extra + dim + i] = value_sums[h][i];
  }
  block_barrier();
  const std::size_t splits = gridDim.y;
  for (unsigned h = warp_index(); h < num_heads; h += attention_warps) {
    float most = -INFINITY;
    for (unsigned w = 0; w < workers; ++w)
      most = fmaxf(most, states[w][h][0]);
    float* to =
        args.workspace
        + ((row * args.heads + first_head + h) * splits + blockIdx.y) * (cache.head_dim + partial_extra);
    float sum = 0.0F;
    for (unsigned w = 0; w < workers; ++w)
      sum = fmaf(states[w][h][1], exponential(states[w][h][0] - most), sum);
    if (lane_index() == 0) {
      to[0] = most;
      to[1] = sum;
    }
    for (std::size_t i = lane_index(); i < cache.head_dim; i += warp_lanes) {
      float value = 0.0F;
      for (unsigned w = 0; w < workers; ++w)
        value = fmaf(states[w][h][partial_extra + i], exponential(states[w][h][0] - most), value);
      to[partial_extra + i] = value;
    }
  }
}

// A warp joins the splits of one head of one row, in order. x: row, y: head.
__global__ void __launch_bounds__(32) join_splits_kernel(attention_args args, std::size_t splits) {
  const std::size_t dims = args.cache.head_dim;
  const std::size_t row = blockIdx.x;
  const std::size_t head = blockIdx.y;
  const std::size_t end = std::size_t{args.positions[row]} + 1;
  const std::size_t first_seen =
      args.sliding_window != 0 && end > args.sliding_window ? end - args.sliding_window : 0;
  const std::size_t first = first_seen / args.split_keys;
  const std::size_t last = (end - 1) / args.split_keys;
  TROUPE_DEVICE_CHECK(last < splits);
  const float* partials = args.workspace + (row * args.heads + head) * splits * (dims + partial_extra);
  const auto partial = [&](std::size_t split) { return partials + split * (dims + partial_extra); };
  const float sink = args.sinks != nullptr ? args.sinks[head] : -INFINITY;
  float most = sink;
  for (std::size_t split = first; split <= last; ++split)
    most = fmaxf(most, partial(split)[0]);
  float sum = args.sinks != nullptr ? exponential(sink - most) : 0.0F;
  for (std::size_t split = first; split <= last; ++split)
    sum = fmaf(partial(split)[1], exponential(partial(split)[0] - most), sum);
  for (std::size_t i = lane_index(); i < dims; i += warp_lanes) {
    float value = 0.0F;
    for (std::size_t split = first; split <= last; ++split)
      value = fmaf(partial(split)[partial_extra + i], exponential(partial(split)[0] - most), value);
    args.output[(row * args.heads + head) * dims + i] = round_bf16(value / sum);
  }
}

template <unsigned Heads, unsigned Lanes>
void start(const stream& on, const attention_args& args) {
  const std::size_t group = args.heads / args.cache.kv_heads;
  const std::size_t parts = (group + Heads - 1) / Heads;
  const std::size_t splits = splits_of(args.most_position, args.split_keys);
  launch("attention", on,
         {.blocks_x = args.rows * args.cache.kv_heads * parts,
          .blocks_y = splits,
          .threads = attention_warps * 32},
         attention_kernel<Heads, Lanes>, args, static_cast<unsigned>(parts));
  launch("attention: joining splits", on, {.blocks_x = args.rows, .blocks_y = args.heads, .threads = 32},
         join_splits_kernel, args, splits);
}

template <unsigned Heads>
void start(const stream& on, const attention_args& args) {
  if (args.cache.head_dim <= 64)
    start<Heads, 8>(on, args);
  else if (args.cache.head_dim <= 128)
    start<Heads, 16>(on, args);
  else
    start<Heads, 32>(on, args);
}

} // namespace

std::size_t split_keys_for(std::size_t rows, std::size_t kv_heads, std::size_t most_position,
                           unsigned multiprocessors) {
  constexpr std::size_t blocks_of_multiprocessor = 4;
  const std::size_t wanted = blocks_of_multiprocessor * multiprocessors;
  const std::size_t without = rows * kv_heads; // blocks, if nothing were split
  const std::size_t splits = without == 0 || without >= wanted ? 1 : wanted / without;
  const std::size_t keys = (most_position + splits) / splits; // ⌈(most_position + 1) / splits⌉
  return (keys + split_granule - 1) / split_granule * split_granule;
}

std::size_t attention_workspace_floats(const attention_args& args) {
  return args.rows * args.heads * splits_of(args.most_position, args.split_keys)
         * (args.cache.head_dim + partial_extra);
}

void attention(const stream& on, const attention_args& args) {
  if (args.rows == 0)
    return;
  expect(args.cache.kv_heads != 0 && args.heads % args.cache.kv_heads == 0,
         "cuda attention: heads are not a multiple of the KV heads");
  expect(args.cache.head_dim % lane_dims == 0 && args.cache.head_dim <= 256,
         "cuda attention: head_dim is not a multiple of 8 up to 256");
  expect(args.split_keys != 0 && args.split_keys % split_granule == 0,
         "cuda attention: splits are not a multiple of 64 keys");
  const std::size_t group = args.heads / args.cache.kv_heads;
  if (group == 1)
    start<1>(on, args);
  else if (group <= 4)
    start<4>(on, args);
  else
    start<8>(on, args);
}

} // namespace troupe::kernels::cuda
