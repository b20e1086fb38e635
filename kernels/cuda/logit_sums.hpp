// The common values of a row's logprobs: its best logit, and the sum of all tokens' shares.
#pragma once

#include <cstddef>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct logit_sums_args {
  /// [rows, vocab], dense.
  const float* logits = nullptr;
  std::size_t rows = 0;
  std::size_t vocab = 0;
  /// [rows].
  float* best = nullptr;
  /// [rows]: Σ e^(logit − best), with the bits of the CPU's `kernel_table::exp_sum`.
  double* sums = nullptr;
};

/// @throws device_error
void logit_sums(const stream& on, const logit_sums_args& args);

} // namespace troupe::kernels::cuda
