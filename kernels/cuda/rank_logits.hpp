// Finds the ranks of logits in their rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

struct logit_in_row {
  std::uint32_t row = 0;
  float logit = 0.0F;
};

/// Pointers are to device memory.
struct rank_logits_args {
  /// [rows, vocab], dense.
  const float* logits = nullptr;
  std::size_t rows = 0;
  std::size_t vocab = 0;
  /// [count].
  const logit_in_row* wanted = nullptr;
  std::size_t count = 0;
  /// [count]: how many tokens have at least that logit.
  std::uint32_t* ranks = nullptr;
};

/// @throws device_error
void rank_logits(const stream& on, const rank_logits_args& args);

} // namespace troupe::kernels::cuda
