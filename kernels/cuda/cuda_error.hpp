// Turns errors of CUDA's runtime into exceptions; only for sources compiled with CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace troupe::kernels::cuda {

/// Clears the error that it throws, so that the next launch does not report it.
/// @throws device_error  for everything but success
void check(cudaError_t status, const std::string& operation);

} // namespace troupe::kernels::cuda
