// What CUDA's runtime answers, as exceptions; only for what is compiled with CUDA.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

namespace troupe::kernels::cuda {

/// Forgets the error that it throws, so that the next launch is not blamed for it.
/// @errors device_error for everything but success
void check(cudaError_t status, const std::string& operation);

} // namespace troupe::kernels::cuda
