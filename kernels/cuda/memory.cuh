// Loads of 16 bytes with cache hints.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/bits.hpp"
#include "kernels/cuda/launch.cuh"

// Registers must be indexed by constants: loops over register arrays must be unrolled.
#if defined(__CUDACC__)
#  define TROUPE_UNROLL _Pragma("unroll")
#else
#  define TROUPE_UNROLL
#endif

namespace troupe::kernels::cuda {

/// 16 bytes, aligned, that are not written during the kernel and not needed again: weights.
__device__ inline bits128 load_once(const void* from) {
#if defined(__CUDACC__)
  bits128 value;
  asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
      : "l"(from));
  return value;
#else
  return *static_cast<const bits128*>(from);
#endif
}

/// 16 bytes, aligned, that are not written during the kernel and that other threads need, too: activations.
__device__ inline bits128 load_again(const void* from) {
#if defined(__CUDACC__)
  bits128 value;
  asm("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
      : "l"(from));
  return value;
#else
  return *static_cast<const bits128*>(from);
#endif
}

} // namespace troupe::kernels::cuda
