#include "kernels/model/device.hpp"

namespace troupe::model {

const char* name_of(device_kind kind) {
  switch (kind) {
  case device_kind::cpu:
    break;
  case device_kind::cuda:
    return "cuda-sm90";
  }
  // The kernels have been compared only on x86, and flush denormals only there (thread_pool.cpp).
#if defined(__x86_64__)
  return "cpu-x86";
#elif defined(__aarch64__)
  return "cpu-arm64";
#else
  return "cpu-other";
#endif
}

} // namespace troupe::model
