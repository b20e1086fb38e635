// Activation functions of one number, FP32, the same on host and device except for the last bits of their
// math libraries.
#pragma once

#include <cmath>

#include "kernels/activation.hpp"
#include "kernels/cuda/annotations.hpp"

namespace troupe::kernels::cuda {

TROUPE_BOTH inline float sigmoid(float x) {
  return 1.0F / (1.0F + expf(-x));
}

/// As `kernels::activation` defines them.
/// @param limit  of clamped_glu
TROUPE_BOTH inline float activated(activation kind, float x, float limit) {
  switch (kind) {
  case activation::silu:
    return x / (1.0F + expf(-x));
  case activation::gelu_tanh:
    return x / (1.0F + expf(-1.5957691216057308F * (x + 0.044715F * x * x * x)));
  case activation::gelu_erf:
    return 0.5F * x * erfcf(-0.70710678118654752F * x);
  case activation::clamped_glu: {
    const float g = x > limit ? limit : x; // NaN stays
    return g / (1.0F + expf(-1.702F * g));
  }
  }
  return x;
}

/// What a gated unit multiplies its activation with. NaN stays.
TROUPE_BOTH inline float gated_up(activation kind, float up, float limit) {
  if (kind != activation::clamped_glu)
    return up;
  return (up > limit ? limit : up < -limit ? -limit : up) + 1.0F;
}

} // namespace troupe::kernels::cuda
