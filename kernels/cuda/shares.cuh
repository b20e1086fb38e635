// Shares of tokens: exp with the bits of the CPU's kernels.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/memory.cuh"

namespace troupe::kernels::cuda {

/// eˣ for x ≤ 0: the additions and multiplications of kernels/cpu/simd/math.hpp with the same roundings (nvcc
/// and the host's compiler fuse only what is written as fused).
__device__ inline float share_of(float x) {
  if (!(x >= -86.6F))
    return x < -86.6F ? 0.0F : x;  // NaN stays
  const float magic = 12582912.0F; // 1.5 · 2²³
  const float n = fmaf(x, 1.44269504088896341F, magic) - magic;
  float r = fmaf(n, -0.693359375F, x);
  r = fmaf(n, 2.12194440e-4F, r);
  float p = fmaf(1.9875691500e-4F, r, 1.3981999507e-3F);
  p = fmaf(p, r, 8.3334519073e-3F);
  p = fmaf(p, r, 4.1665795894e-2F);
  p = fmaf(p, r, 1.6666665459e-1F);
  p = fmaf(p, r, 5.0000001201e-1F);
  p = fmaf(p, r * r, r) + 1.0F;
  return p * std::bit_cast<float>(static_cast<std::uint32_t>(static_cast<int>(n) + 127) << 23);
}

/// A logit of a row, −infinity past its end.
__device__ inline float logit_or_none(const float* row, std::size_t vocab, std::size_t token) {
  return token < vocab ? row[token] : -INFINITY;
}

/// The same for tokens first, first + step, …: all loads are started before the first is waited for.
template <unsigned Count>
__device__ void load_logits(const float* row, std::size_t vocab, std::size_t first, std::size_t step,
                            float (&logits)[Count]) {
  TROUPE_UNROLL
  for (unsigned i = 0; i < Count; ++i)
    logits[i] = logit_or_none(row, vocab, first + i * step);
}

} // namespace troupe::kernels::cuda
