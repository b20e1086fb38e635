// Rotates the pairs of a head that is in shared memory.
#pragma once

#include <cstddef>

#include "kernels/cuda/warp.cuh"
#include "kernels/rope.hpp"

namespace troupe::kernels::cuda {

/// For a warp.
/// @param cosines, sines  [positions, pairs]
/// @param head  its first element that rotates
__device__ inline void rotate_pairs(const float* cosines, const float* sines, std::size_t position,
                                    std::size_t pairs, rope_style style, float* head) {
  for (std::size_t i = lane_index(); i < pairs; i += warp_lanes) {
    const std::size_t first = style == rope_style::rotate_half ? i : 2 * i;
    const std::size_t second = style == rope_style::rotate_half ? i + pairs : 2 * i + 1;
    const float cosine = cosines[position * pairs + i];
    const float sine = sines[position * pairs + i];
    const float a = head[first];
    const float b = head[second];
    head[first] = fmaf(a, cosine, -(b * sine));
    head[second] = fmaf(b, cosine, a * sine);
  }
}

} // namespace troupe::kernels::cuda
