// Activation functions of one number, FP32, the same for host and device up to their libraries' last bits.
#pragma once

#include <cmath>

#include "kernels/activation.hpp"
#include "kernels/cuda/annotations.hpp"

namespace troupe::kernels::cuda {

TROUPE_BOTH inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

/// As `kernels::activate` defines them.
TROUPE_BOTH inline float activated(activation kind, float x) {
  switch (kind) {
  case activation::silu:
    return x / (1.0F + expf(-x));
  case activation::gelu_tanh:
    return x / (1.0F + expf(-1.5957691216057308F * (x + 0.044715F * x * x * x)));
  case activation::gelu_erf:
    return 0.5F * x * erfcf(-0.70710678118654752F * x);
  }
  return x;
}

} // namespace troupe::kernels::cuda
