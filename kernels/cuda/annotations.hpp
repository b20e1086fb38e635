// Function annotations that both nvcc and a plain compiler accept.
#pragma once

#if defined(__CUDACC__)
/// Compiled for the host and for the device.
#  define TROUPE_BOTH __host__ __device__
#else
#  define TROUPE_BOTH
#endif
