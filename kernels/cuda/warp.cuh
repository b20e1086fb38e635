// Collective operations of a warp's or a block's threads. All 32 lanes must take part.
//
// Sums use a fixed tree (16, 8, 4, 2, 1 apart), so that a kernel's bits are deterministic.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

inline constexpr unsigned warp_lanes = 32;

__device__ inline unsigned lane_index() {
  return threadIdx.x % warp_lanes;
}

__device__ inline unsigned warp_index() {
  return threadIdx.x / warp_lanes;
}

/// Waits until all threads of the block have arrived; all see what they wrote to shared memory.
__device__ inline void block_barrier() {
#if defined(__CUDACC__)
  __syncthreads();
#else
  emulation::block_barrier();
#endif
}

/// The same for the threads of a warp.
__device__ inline void warp_barrier() {
#if defined(__CUDACC__)
  __syncwarp();
#else
  const std::uint32_t nothing = 0;
  emulation::exchange("warp_barrier", &nothing, sizeof nothing);
#endif
}

/// The value of the lane whose index differs in the bits of `mask`; 4-byte types and double.
template <class T>
__device__ T shuffle_xor(T value, unsigned mask) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#if defined(__CUDACC__)
  return __shfl_xor_sync(0xffffffffU, value, static_cast<int>(mask));
#else
  const std::byte* all = emulation::exchange("shuffle_xor", &value, sizeof value);
  T other;
  std::memcpy(&other, all + (lane_index() ^ mask) * sizeof other, sizeof other);
  return other;
#endif
}

/// The value of lane `from`.
template <class T>
__device__ T shuffle(T value, unsigned from) {
  static_assert(sizeof(T) == 4);
#if defined(__CUDACC__)
  return __shfl_sync(0xffffffffU, value, static_cast<int>(from));
#else
  const std::byte* all = emulation::exchange("shuffle", &value, sizeof value);
  T other;
  std::memcpy(&other, all + from % warp_lanes * sizeof other, sizeof other);
  return other;
#endif
}

/// Bit i: the value of lane i.
__device__ inline std::uint32_t ballot(bool holds) {
#if defined(__CUDACC__)
  return __ballot_sync(0xffffffffU, holds);
#else
  const std::uint32_t own = holds ? 1U : 0U;
  const std::byte* all = emulation::exchange("ballot", &own, sizeof own);
  std::uint32_t votes = 0;
  for (unsigned lane = 0; lane < warp_lanes; ++lane) {
    std::uint32_t vote = 0;
    std::memcpy(&vote, all + lane * sizeof vote, sizeof vote);
    votes |= vote << lane;
  }
  return votes;
#endif
}

/// Number of set bits.
__device__ inline unsigned count_bits(std::uint32_t bits) {
#if defined(__CUDACC__)
  return static_cast<unsigned>(__popc(bits));
#else
  return static_cast<unsigned>(__builtin_popcount(bits));
#endif
}

/// Atomically adds to a counter in shared memory.
/// @returns its previous value
__device__ inline std::uint32_t count_shared(std::uint32_t* counter, std::uint32_t more) {
#if defined(__CUDACC__)
  return atomicAdd(counter, more);
#else
  const std::uint32_t before = *counter;
  *counter += more;
  return before;
#endif
}

/// Σ over the lanes, the same in all of them.
template <class T>
__device__ T warp_sum(T value) {
  for (unsigned apart = warp_lanes / 2; apart > 0; apart /= 2)
    value += shuffle_xor(value, apart);
  return value;
}

__device__ inline float warp_max(float value) {
  for (unsigned apart = warp_lanes / 2; apart > 0; apart /= 2) {
    const float other = shuffle_xor(value, apart);
    value = other > value ? other : value;
  }
  return value;
}

/// Σ over the threads of the block, at most 32 warps, the same in all of them; warps in order.
/// @param scratch  [32] in shared memory; may be reused after the next barrier of all threads
__device__ inline float block_sum(float value, float* scratch) {
  const float own = warp_sum(value);
  if (lane_index() == 0)
    scratch[warp_index()] = own;
  block_barrier();
  float sum = 0.0F;
  for (unsigned w = 0; w < blockDim.x / warp_lanes; ++w)
    sum += scratch[w];
  return sum;
}

} // namespace troupe::kernels::cuda
