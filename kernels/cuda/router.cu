#include "kernels/cuda/router.hpp"

#include <cmath>

#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned router_threads = 256;
constexpr std::uint32_t none = 0xffffffffU;

// Σ of 8 products in order.
__device__ float dot8(const bits128& a, const bits128& b, float sum) {
  for (unsigned i = 0; i < 4; ++i) {
    sum = fmaf(lower_float(a.word[i]), lower_float(b.word[i]), sum);
    sum = fmaf(upper_float(a.word[i]), upper_float(b.word[i]), sum);
  }
  return sum;
}

// Logits of a row: an expert a warp in turn.
__device__ void multiply_router(const router_args& args, std::size_t row, float* logits) {
  const bfloat16* x = args.input + row * args.input_stride;
  for (std::size_t e = warp_index(); e < args.experts; e += router_threads / warp_lanes) {
    const bfloat16* w = args.weight + e * args.hidden;
    float sum = 0.0F;
    for (std::size_t i = lane_index() * 8; i < args.hidden; i += warp_lanes * 8)
      sum = dot8(load_again(x + i), load_again(w + i), sum);
    sum = warp_sum(sum);
    if (lane_index() == 0) {
      logits[e] = sum;
      if (args.logits != nullptr)
        args.logits[row * args.experts + e] = sum;
    }
  }
}

__device__ bool is_better(float key, std::uint32_t expert, float than_key, std::uint32_t than) {
  return expert != none && (than == none || key > than_key || (key == than_key && expert < than));
}

// One warp: the best of the keys that are not taken, by every lane.
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
    // NaN keys are neither better nor worse: the lower lane's stands, so that all lanes agree.
    const bool other_wins = (lane_index() & apart) == 0 ? is_better(other_key, other, best_key, best)
                                                        : !is_better(best_key, best, other_key, other);
    if (other_wins) {
      best = other;
      best_key = other_key;
    }
  }
  return best;
}

// One warp: scores in place of logits.
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
    break;
  }
}

// One lane: the chosen scores become weights, in order of the slots.
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
    for (unsigned i = 0; i < k; ++i)
      weights[i] /= sum;
  }
  for (unsigned i = 0; i < k; ++i)
    weights[i] *= args.scale;
}

__global__ void __launch_bounds__(router_threads) router_kernel(router_args args) {
  __shared__ float scores[most_experts];
  __shared__ float keys[most_experts];
  __shared__ unsigned char taken[most_experts];
  __shared__ float weights[most_top_k];
  const std::size_t row = blockIdx.x;
  if (args.weight != nullptr)
    multiply_router(args, row, scores);
  else
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
  for (std::size_t i = 0; i < args.top_k; ++i) {
    const std::uint32_t best = best_left(keys, taken, args.experts);
    TROUPE_DEVICE_CHECK(best < args.experts);
    if (lane_index() == 0) {
      taken[best] = 1;
      weights[i] = scores[best];
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

} // namespace

void route(const stream& on, const router_args& args) {
  expect(args.top_k <= most_top_k && args.top_k <= args.experts && args.experts <= most_experts,
         "cuda route: top_k is above 64 or the experts, or these above 1024");
  expect(args.weight == nullptr || (args.hidden % 8 == 0 && args.input_stride % 8 == 0),
         "cuda route: hidden is not a multiple of 8");
  expect(args.weight != nullptr || args.logits != nullptr, "cuda route: neither weights nor logits");
  if (args.top_k == 0)
    return;
  launch("route", on, {.blocks_x = args.rows, .threads = router_threads}, router_kernel, args);
}

} // namespace troupe::kernels::cuda
