// Draws from all tokens of a row: sums of their shares, and the tokens near the drawn one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

struct share_draw {
  std::uint32_t row = 0;
  /// 1 / temperature.
  float factor = 1.0F;
  /// Smaller shares are left out.
  float least = 0.0F;
  /// The draw, in [0, 1).
  double uniform = 0.0;
};

/// Pointers are to device memory.
struct share_sums_args {
  /// [rows, vocab], dense.
  const float* logits = nullptr;
  std::size_t rows = 0;
  std::size_t vocab = 0;
  /// [rows], from `logit_sums`.
  const float* best = nullptr;
  /// [num_draws].
  const share_draw* draws = nullptr;
  std::size_t num_draws = 0;
  /// [num_draws, share_blocks(vocab)]: Σ e^((logit − best) · factor) of `share_block` tokens each, in any
  /// order.
  double* sums = nullptr;
  /// [num_draws]: the block in which the cumulated sum exceeds `uniform` of the whole.
  std::uint32_t* drawn_blocks = nullptr;
  /// [num_draws, share_block]: its logits, −infinity past the end of the row.
  float* drawn = nullptr;
};

/// @throws device_error
void share_sums(const stream& on, const share_sums_args& args);

} // namespace troupe::kernels::cuda
