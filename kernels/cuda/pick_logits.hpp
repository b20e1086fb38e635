// Copies single logits.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

struct logit_place {
  std::uint32_t row = 0;
  std::uint32_t token = 0;
};

/// Pointers are to device memory.
struct pick_logits_args {
  /// [rows, vocab], dense.
  const float* logits = nullptr;
  std::size_t rows = 0;
  std::size_t vocab = 0;
  /// [count].
  const logit_place* places = nullptr;
  std::size_t count = 0;
  /// [count].
  float* output = nullptr;
};

/// @throws device_error
void pick_logits(const stream& on, const pick_logits_args& args);

} // namespace troupe::kernels::cuda
