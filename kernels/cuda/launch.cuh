// Launches kernels, for nvcc and for the emulation; included only by the .cu files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "kernels/cuda/device.hpp"

#if defined(__CUDACC__)
#  include <cuda_runtime.h>

#  include <cstdio>

#  include "kernels/cuda/cuda_error.hpp"
#else
#  include "kernels/cuda/emulated_stream.hpp"
#  include "kernels/cuda/emulation.hpp"

#  define __global__
#  define __device__
#  define __shared__ static thread_local // a block runs on one thread of the host
#  define __launch_bounds__(...)
#  define threadIdx (::troupe::kernels::cuda::emulation::place().thread)
#  define blockIdx (::troupe::kernels::cuda::emulation::place().block)
#  define blockDim (::troupe::kernels::cuda::emulation::place().block_size)
#  define gridDim (::troupe::kernels::cuda::emulation::place().grid_size)
#endif

// Checks an index in a kernel, in debug builds and in the emulation: a wrong index stops the kernel with its
// place instead of reading other memory.
#if !defined(__CUDACC__)
#  define TROUPE_DEVICE_CHECK(holds)                                                                         \
    do {                                                                                                     \
      if (!(holds))                                                                                          \
        ::troupe::kernels::cuda::emulation::trap("out of bounds: " #holds);                                  \
    } while (false)
#elif defined(TROUPE_CUDA_CHECKS)
#  define TROUPE_DEVICE_CHECK(holds)                                                                         \
    do {                                                                                                     \
      if (!(holds)) {                                                                                        \
        printf("%s:%d: out of bounds: %s (block %u,%u,%u thread %u)\n", __FILE__, __LINE__, #holds,          \
               blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);                                             \
        __trap();                                                                                            \
      }                                                                                                      \
    } while (false)
#else
#  define TROUPE_DEVICE_CHECK(holds)                                                                         \
    do {                                                                                                     \
    } while (false)
#endif

namespace troupe::kernels::cuda {

/// CUDA's limit for the second and third dimension of a grid.
inline constexpr std::size_t most_grid_yz = 65535;

/// Static and dynamic shared memory that a block may have together without a request for more.
inline constexpr std::size_t shared_bytes_always_allowed = std::size_t{48} << 10;

/// Whether a kernel's blocks need more than that; static memory alone never does.
constexpr bool needs_more_shared(std::size_t static_bytes, std::size_t dynamic_bytes) {
  return dynamic_bytes != 0 && static_bytes + dynamic_bytes > shared_bytes_always_allowed;
}

/// Blocks (x is unlimited; y and z up to `most_grid_yz`), threads per block, dynamic shared memory.
struct launch_shape {
  std::size_t blocks_x = 1;
  std::size_t blocks_y = 1;
  std::size_t blocks_z = 1;
  unsigned threads = 32;
  std::size_t shared_bytes = 0;
};

/// Enqueues a kernel on a stream; does nothing if a dimension of the grid is 0.
/// @param name  of the op, for errors
/// @throws device_error
template <class... Parameters, class... Arguments>
void launch(const char* name, const stream& on, const launch_shape& shape, void (*kernel)(Parameters...),
            const Arguments&... arguments) {
  if (shape.blocks_x == 0 || shape.blocks_y == 0 || shape.blocks_z == 0)
    return;
  const auto x = static_cast<unsigned>(shape.blocks_x);
  const auto y = static_cast<unsigned>(shape.blocks_y);
  const auto z = static_cast<unsigned>(shape.blocks_z);
#if defined(__CUDACC__)
  cudaError_t status = cudaSuccess;
  if (shape.shared_bytes != 0) {
    const auto* function = reinterpret_cast<const void*>(kernel);
    cudaFuncAttributes attributes{};
    status = cudaFuncGetAttributes(&attributes, function);
    if (status == cudaSuccess && needs_more_shared(attributes.sharedSizeBytes, shape.shared_bytes))
      status = cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shape.shared_bytes));
  }
  if (status == cudaSuccess) {
    kernel<<<dim3(x, y, z), dim3(shape.threads), shape.shared_bytes,
             static_cast<cudaStream_t>(on.native())>>>(arguments...);
    status = cudaGetLastError();
  }
  if (status != cudaSuccess)
    check(status, std::string("launch ") + name);
#else
  static_cast<emulated_stream*>(on.native())->work.emplace_back([=] {
    emulation::run(name, {x, y, z}, {shape.threads, 1, 1}, shape.shared_bytes, [&] { kernel(arguments...); });
  });
#endif
}

/// The block's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char memory[];
  return reinterpret_cast<T*>(memory);
#else
  return reinterpret_cast<T*>(emulation::shared_memory());
#endif
}

} // namespace troupe::kernels::cuda
