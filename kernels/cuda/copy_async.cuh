// Copies from device memory to shared memory that run in parallel with the requesting thread (cp.async, PTX).
//
// A thread collects its copies in groups and waits for groups. Only then, and after a barrier, may others
// read the copied data. The emulation copies when the thread waits, so that it detects early reads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace troupe::kernels::cuda {

/// @param Bytes   4, 8 or 16; both addresses are multiples of it
/// @param wanted  false: zeros are written, and `from` is not read
template <unsigned Bytes>
__device__ inline void copy_async(void* to_shared, const void* from, bool wanted) {
  static_assert(Bytes == 4 || Bytes == 8 || Bytes == 16);
#if defined(__CUDACC__)
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
  const std::size_t source = __cvta_generic_to_global(from);
  const unsigned size = wanted ? Bytes : 0;
  if constexpr (Bytes == 16) // bypasses L1: no other thread of this multiprocessor reads it
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(source), "r"(size)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(source), "r"(size), "n"(Bytes)
                 : "memory");
#else
  emulation::copy_later(to_shared, wanted ? from : nullptr, Bytes);
#endif
}

/// Ends a group, which may be empty.
__device__ inline void end_copy_group() {
#if defined(__CUDACC__)
  asm volatile("cp.async.commit_group;" ::: "memory");
#else
  emulation::end_copy_group();
#endif
}

/// Waits until all but the thread's `Left` latest groups are copied.
template <unsigned Left>
__device__ inline void wait_for_copies() {
#if defined(__CUDACC__)
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
#else
  emulation::wait_for_copies(Left);
#endif
}

} // namespace troupe::kernels::cuda
