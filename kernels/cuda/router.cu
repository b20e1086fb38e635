#include "kernels/cuda/router.hpp"

#include <bit>
#include <cmath>

#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned router_threads = 256;
constexpr unsigned router_warps = router_threads / warp_lanes;
constexpr std::uint32_t none = 0xffffffffU;

// Inputs that a lane loads at a time, and those of a warp.
constexpr std::size_t lane_inputs = 8;
constexpr std::size_t step_inputs = warp_lanes * lane_inputs;

// From this many rows on there are enough blocks, and several rows share each load of the weights.
constexpr std::size_t rows_to_share = 64;
constexpr unsigned shared_rows = 8;

// Weights that a lane loads at a time.
struct bf16_run {
  using element = bfloat16;

  bits128 pairs;

  __device__ void load(const bfloat16* from) { pairs = load_again(from); }

  __device__ float at(unsigned i) const {
    return i % 2 == 0 ? lower_float(pairs.word[i / 2]) : upper_float(pairs.word[i / 2]);
  }
};

struct f32_run {
  using element = float;

  bits128 halves[2];

  __device__ void load(const float* from) {
    halves[0] = load_again(from);
    halves[1] = load_again(from + 4);
  }

  __device__ float at(unsigned i) const { return std::bit_cast<float>(halves[i / 4].word[i % 4]); }
};

// Σ of 8 products in order.
template <class Run>
__device__ float dot8(const bits128& a, const Run& b, float sum) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    sum = fmaf(lower_float(a.word[i]), b.at(2 * i), sum);
    sum = fmaf(upper_float(a.word[i]), b.at(2 * i + 1), sum);
  }
  return sum;
}

// Logits of `Rows` rows: x = rows, y = experts, one per warp. `Ahead` steps are loaded before the first is
// multiplied, since a warp waits for memory much longer than it computes. ptxas keeps the loads in front only
// if it may use the registers of one block per multiprocessor, and if no branch surrounds the products.
template <class Run, unsigned Rows, unsigned Ahead>
__global__ void __launch_bounds__(router_threads, 1) router_logits_kernel(router_args args) {
  const std::size_t expert = std::size_t{blockIdx.y} * router_warps + warp_index();
  if (expert >= args.experts)
    return;
  const auto* w = static_cast<const typename Run::element*>(args.weight) + expert * args.hidden;
  const std::size_t first_row = std::size_t{blockIdx.x} * Rows;
  const bfloat16* x[Rows];
  TROUPE_UNROLL
  for (unsigned r = 0; r < Rows; ++r) // past the last row: that row again
    x[r] = args.input + (first_row + r < args.rows ? first_row + r : args.rows - 1) * args.input_stride;
  float sums[Rows] = {};
  for (std::size_t begin = 0; begin < args.hidden; begin += Ahead * step_inputs) {
    const std::size_t first = begin + lane_index() * lane_inputs;
    Run weights[Ahead];
    bits128 inputs[Ahead][Rows];
    TROUPE_UNROLL
    for (unsigned s = 0; s < Ahead; ++s) {
      const std::size_t i = first + s * step_inputs;
      weights[s] = {};
      if (i < args.hidden)
        weights[s].load(w + i);
      TROUPE_UNROLL
      for (unsigned r = 0; r < Rows; ++r) {
        inputs[s][r] = {};
        if (i < args.hidden)
          inputs[s][r] = load_again(x[r] + i);
      }
    }
    TROUPE_UNROLL
    for (unsigned s = 0; s < Ahead; ++s) {
      const bool is_there = first + s * step_inputs < args.hidden;
      TROUPE_UNROLL
      for (unsigned r = 0; r < Rows; ++r) {
        const float sum = dot8(inputs[s][r], weights[s], sums[r]);
        sums[r] = is_there ? sum : sums[r];
      }
    }
  }
  TROUPE_UNROLL
  for (unsigned r = 0; r < Rows; ++r) {
    const float sum = warp_sum(sums[r]);
    if (lane_index() == 0 && first_row + r < args.rows)
      args.logits[(first_row + r) * args.experts + expert] =
          args.bias != nullptr ? sum + args.bias[expert] : sum;
  }
}

__device__ bool is_better(float key, std::uint32_t expert, float than_key, std::uint32_t than) {
  return expert != none && (than == none || key > than_key || (key == than_key && expert < than));
}

// For a warp: the best key that is not taken, in every lane.
__device__ std::uint32_t best_left(const float* keys, const unsigned char* taken, std::size_t count) {
  std::uint32_t best = none;
  float best_key = 0.0F;
  for (auto e = static_cast<std::uint32_t>(lane_index()); e < count; e += warp_lanes)
    if (taken[e] == 0 && is_better(keys[e], e, best_key, best)) {
      best = e;
      best_key = keys[e];
    }
  for (unsigned apart = warp_lanes / 2; apart > 0; apart /= 2) {
    const std::uint32_t other = shuffle_xor(best, apart);
    const float other_key = shuffle_xor(best_key, apart);
    // NaN keys are neither better nor worse: the lower lane's wins, so that all lanes agree.
    const bool other_wins = (lane_index() & apart) == 0 ? is_better(other_key, other, best_key, best)
                                                        : !is_better(best_key, best, other_key, other);
    if (other_wins) {
      best = other;
      best_key = other_key;
    }
  }
  return best;
}

// For a warp: replaces logits by scores.
__device__ void score_row(const router_args& args, float* scores) {
  const auto count = static_cast<unsigned>(args.experts);
  switch (args.score) {
  case router_score::softmax: {
    float most = -INFINITY;
    for (unsigned e = lane_index(); e < count; e += warp_lanes)
      most = fmaxf(most, scores[e]);
    most = warp_max(most);
    float sum = 0.0F;
    for (unsigned e = lane_index(); e < count; e += warp_lanes) {
      scores[e] = expf(scores[e] - most);
      sum += scores[e];
    }
    sum = warp_sum(sum);
    for (unsigned e = lane_index(); e < count; e += warp_lanes)
      scores[e] /= sum;
    break;
  }
  case router_score::sigmoid:
    for (unsigned e = lane_index(); e < count; e += warp_lanes)
      scores[e] = sigmoid(scores[e]);
    break;
  case router_score::softmax_of_chosen:
  case router_score::sparsemixer:
    break;
  }
}

__device__ float rank_of(group_rank rank, const float* keys, std::size_t count) {
  float best = -INFINITY;
  float second = -INFINITY;
  for (std::size_t i = 0; i < count; ++i)
    if (keys[i] > best) {
      second = best;
      best = keys[i];
    } else if (keys[i] > second) {
      second = keys[i];
    }
  return rank == group_rank::largest ? best : best + second;
}

// For a warp: keys of experts outside the best groups become −∞.
__device__ void drop_groups(const router_args& args, float* keys) {
  __shared__ float ranks[most_expert_groups];
  __shared__ unsigned char stays[most_expert_groups];
  const expert_groups& groups = args.groups;
  const std::size_t size = args.experts / groups.count;
  for (std::size_t g = lane_index(); g < groups.count; g += warp_lanes) {
    ranks[g] = rank_of(groups.rank, keys + g * size, size);
    stays[g] = 0;
  }
  warp_barrier();
  for (std::size_t i = 0; i < groups.kept; ++i) {
    const std::uint32_t best = best_left(ranks, stays, groups.count);
    TROUPE_DEVICE_CHECK(best < groups.count);
    warp_barrier();
    if (lane_index() == 0)
      stays[best] = 1;
    warp_barrier();
  }
  for (std::size_t e = lane_index(); e < args.experts; e += warp_lanes)
    if (stays[e / size] == 0)
      keys[e] = -INFINITY;
  warp_barrier();
}

// For a warp: sparsemixer's weight of the best expert that is not taken.
__device__ float share_of_near(const router_args& args, const float* logits, const unsigned char* taken,
                               std::uint32_t best) {
  const float most = logits[best];
  float sum = 0.0F;
  for (std::size_t e = lane_index(); e < args.experts; e += warp_lanes) {
    const float apart = (most - logits[e]) / fmaxf(fabsf(logits[e]), most);
    if (taken[e] == 0 && !(apart > 2.0F * args.jitter))
      sum += expf(logits[e] - most);
  }
  return 1.0F / warp_sum(sum);
}

// For a lane: turns the chosen scores into weights, in order of the slots.
__device__ void weigh(const router_args& args, float* weights) {
  const auto k = static_cast<unsigned>(args.top_k);
  if (args.score == router_score::softmax_of_chosen) {
    float most = weights[0];
    for (unsigned i = 1; i < k; ++i)
      most = fmaxf(most, weights[i]);
    float sum = 0.0F;
    for (unsigned i = 0; i < k; ++i) {
      weights[i] = expf(weights[i] - most);
      sum += weights[i];
    }
    for (unsigned i = 0; i < k; ++i)
      weights[i] /= sum;
  }
  if (args.renormalise) {
    float sum = 0.0F;
    for (unsigned i = 0; i < k; ++i)
      sum += weights[i];
    sum += args.sum_offset;
    sum = sum < args.least_sum ? args.least_sum : sum;
    for (unsigned i = 0; i < k; ++i)
      weights[i] /= sum;
  }
  for (unsigned i = 0; i < k; ++i)
    weights[i] *= args.scale;
}

__global__ void __launch_bounds__(router_threads) choose_experts_kernel(router_args args) {
  __shared__ float scores[most_experts];
  __shared__ float keys[most_experts];
  __shared__ unsigned char taken[most_experts];
  __shared__ float weights[most_top_k];
  const std::size_t row = blockIdx.x;
  for (std::size_t e = threadIdx.x; e < args.experts; e += router_threads)
    scores[e] = args.logits[row * args.experts + e];
  block_barrier();
  if (warp_index() != 0)
    return;
  score_row(args, scores);
  for (std::size_t e = lane_index(); e < args.experts; e += warp_lanes) {
    keys[e] = args.choice_bias != nullptr ? scores[e] + args.choice_bias[e] : scores[e];
    taken[e] = 0;
  }
  warp_barrier();
  if (args.groups.count > 1)
    drop_groups(args, keys);
  for (std::size_t i = 0; i < args.top_k; ++i) {
    const std::uint32_t best = best_left(keys, taken, args.experts);
    TROUPE_DEVICE_CHECK(best < args.experts);
    const float weight =
        args.score == router_score::sparsemixer ? share_of_near(args, scores, taken, best) : scores[best];
    warp_barrier(); // all have read `taken` before it changes: shuffles do not order memory
    if (lane_index() == 0) {
      taken[best] = 1;
      weights[i] = weight;
      args.chosen[row * args.top_k + i] = best;
    }
    warp_barrier();
  }
  if (lane_index() != 0)
    return;
  weigh(args, weights);
  for (std::size_t i = 0; i < args.top_k; ++i)
    args.weights[row * args.top_k + i] = weights[i];
}

template <class Run, unsigned Rows, unsigned Ahead>
void start(const stream& on, const router_args& args) {
  launch("route", on,
         {.blocks_x = (args.rows + Rows - 1) / Rows,
          .blocks_y = (args.experts + router_warps - 1) / router_warps,
          .threads = router_threads},
         router_logits_kernel<Run, Rows, Ahead>, args);
}

template <class Run>
void multiply_router(const stream& on, const router_args& args) {
  if (args.rows < rows_to_share)
    start<Run, 1, 8>(on, args);
  else
    start<Run, shared_rows, 2>(on, args);
}

} // namespace

void route(const stream& on, const router_args& args) {
  expect(args.top_k <= most_top_k && args.top_k <= args.experts && args.experts <= most_experts,
         "cuda route: top_k is above 64 or the experts, or these above 1024");
  expect(args.weight == nullptr || (args.hidden % 8 == 0 && args.input_stride % 8 == 0),
         "cuda route: hidden is not a multiple of 8");
  expect(args.logits != nullptr, "cuda route: no logits, and no room for them");
  expect(args.groups.fit(args.experts, args.top_k),
         "cuda route: groups are unequal, or those kept have fewer than top_k experts");
  expect(args.score != router_score::sparsemixer
             || (args.top_k == 2 && args.choice_bias == nullptr && args.groups.count == 1),
         "cuda route: sparsemixer chooses two experts, without bias and groups");
  expect(args.weight_type == dtype::bf16 || args.weight_type == dtype::f32,
         "cuda route: weights are not bf16 or f32");
  if (args.weight != nullptr && args.weight_type == dtype::bf16)
    multiply_router<bf16_run>(on, args);
  else if (args.weight != nullptr)
    multiply_router<f32_run>(on, args);
  if (args.top_k == 0)
    return;
  launch("route", on, {.blocks_x = args.rows, .threads = router_threads}, choose_experts_kernel, args);
}

} // namespace troupe::kernels::cuda
