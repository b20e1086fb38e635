// What the kernels of attention and of latent attention do alike: softmax of a chunk's scores, products with
// its values, and a span's partial result. Only for these two.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/kv_chunks.cuh"
#include "kernels/cuda/mma.cuh"

namespace troupe::kernels::cuda {

inline constexpr unsigned warp_pairs = 16;              // rows of an instruction's left operand
inline constexpr unsigned score_tiles = chunk_keys / 8; // of 8 keys, an instruction's columns

/// A span's result for one row and head in the workspace: maximum of the scores, sum, then the weighted sums
/// of the values' dimensions.
inline constexpr std::size_t partial_extra = 2;

/// Scores are kept in units of log2 e, so that 2^x is the only exponential.
inline constexpr float log2_e = 1.44269504088896340736F;

__device__ inline float power_of_2(float x) {
#if defined(__CUDACC__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return std::exp2(x);
#endif
}

/// The first key that a row sees whose last one is end − 1.
__device__ inline std::uint32_t first_seen(const attention_args& args, std::uint32_t end) {
  if (args.chunk != 0)
    return end == 0 ? 0 : end - 1 - (end - 1) % args.chunk;
  const std::size_t window = args.sliding_window;
  return window != 0 && end > window ? end - static_cast<std::uint32_t>(window) : 0;
}

/// A row and a head of it.
struct pair_place {
  std::size_t row;
  std::size_t head;
  std::uint32_t end; ///< of the visible keys; 0: no such pair
};

/// A lane's part of 16 pairs: two of them (i = 0, 1), and two of every 8 of `Dims` dimensions.
template <unsigned Dims>
struct softmax_state {
  std::uint32_t first[2]; ///< first key of the pair
  std::uint32_t end[2];   ///< 0: no such pair
  float most[2] = {-INFINITY, -INFINITY};
  float total[2] = {};
  float sums[Dims / 8][4] = {};
};

/// Turns scores into probabilities under a new maximum, and rescales all earlier sums to it.
template <unsigned Dims, class KeyScale>
__device__ void apply_softmax(softmax_state<Dims>& state, std::uint32_t chunk, float scale,
                              const KeyScale& key_scale, float (&scores)[score_tiles][4]) {
  float most[2] = {state.most[0], state.most[1]};
  TROUPE_UNROLL
  for (unsigned n = 0; n < score_tiles; ++n)
    TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    const unsigned k = n * 8 + lane_index() % 4 * 2 + i % 2;
    const bool is_seen = chunk + k >= state.first[i / 2] && chunk + k < state.end[i / 2];
    scores[n][i] = is_seen ? scores[n][i] * (scale * key_scale(k)) : -INFINITY;
    most[i / 2] = fmaxf(most[i / 2], scores[n][i]);
  }
  float reference[2];
  float shrink[2];
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    most[i] = fmaxf(most[i], shuffle_xor(most[i], 1)); // the pair's other columns are in three more lanes
    most[i] = fmaxf(most[i], shuffle_xor(most[i], 2));
    // If nothing is seen yet the maximum is −∞, and −∞ + ∞ is NaN.
    reference[i] = most[i] == -INFINITY ? 0.0F : most[i];
    shrink[i] = power_of_2(state.most[i] - reference[i]);
    state.most[i] = most[i];
    state.total[i] *= shrink[i];
  }
  TROUPE_UNROLL
  for (unsigned n = 0; n < score_tiles; ++n)
    TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i) {
    scores[n][i] = power_of_2(scores[n][i] - reference[i / 2]);
    state.total[i / 2] += scores[n][i];
  }
  TROUPE_UNROLL
  for (unsigned n = 0; n < Dims / 8; ++n)
    TROUPE_UNROLL
  for (unsigned i = 0; i < 4; ++i)
    state.sums[n][i] *= shrink[i / 2];
}

/// sums += p · values, for `Dims` dimensions from `first_dim` on, those from `dims` on left out; p in the
/// layout of scores, rounded to BF16 here.
template <unsigned Dims, unsigned Stride>
__device__ void multiply_values(const float (&p)[score_tiles][4],
                                const bfloat16 (&values)[chunk_keys][Stride], unsigned first_dim,
                                unsigned dims, float (&sums)[Dims / 8][4]) {
  const unsigned lane = lane_index();
  TROUPE_UNROLL
  for (unsigned k = 0; k < chunk_keys; k += 16) {
    const auto& left = p[k / 8];
    const auto& right = p[k / 8 + 1];
    const std::uint32_t a[4] = {bf16_pair(left[0], left[1]), bf16_pair(left[2], left[3]),
                                bf16_pair(right[0], right[1]), bf16_pair(right[2], right[3])};
    TROUPE_UNROLL
    for (unsigned dim = 0; dim < Dims; dim += 16) {
      if (first_dim + dim >= dims)
        break;
      std::uint32_t b[4];
      load_transposed(&values[k + lane % 16][first_dim + dim + lane / 16 * 8], b);
      multiply_add(sums[dim / 8], a, b[0], b[1]);
      multiply_add(sums[dim / 8 + 1], a, b[2], b[3]);
    }
  }
}

/// The sums of probabilities of the lane's pairs over all keys: until then each of a pair's four lanes has
/// its own.
template <unsigned Dims>
__device__ void join_totals(softmax_state<Dims>& state) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < 2; ++i) {
    state.total[i] += shuffle_xor(state.total[i], 1);
    state.total[i] += shuffle_xor(state.total[i], 2);
  }
}

/// Writes the partial result of one of the lane's pairs, dimensions from `first_dim` on; all four lanes of
/// the pair call it.
/// @param dims  of a value
template <unsigned Dims>
__device__ void store_partial(const softmax_state<Dims>& state, unsigned i, unsigned first_dim,
                              std::size_t dims, float* to) {
  if (lane_index() % 4 == 0 && first_dim == 0) {
    to[0] = state.most[i];
    to[1] = state.total[i];
  }
  TROUPE_UNROLL
  for (unsigned n = 0; n < Dims / 8; ++n) {
    const unsigned dim = first_dim + n * 8 + lane_index() % 4 * 2;
    // A sum of zeros may be −0 or 0, depending on the number of unseen keys; + 0 makes both 0.
    if (dim < dims)
      *reinterpret_cast<bits64*>(to + partial_extra
                                 + dim) = {{std::bit_cast<std::uint32_t>(state.sums[n][2 * i] + 0.0F),
                                            std::bit_cast<std::uint32_t>(state.sums[n][2 * i + 1] + 0.0F)}};
  }
}

} // namespace troupe::kernels::cuda
