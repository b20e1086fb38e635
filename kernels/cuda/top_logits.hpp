// The best tokens of each row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"
#include "kernels/known_logits.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct top_logits_args {
  /// [rows, vocab], dense.
  const float* logits = nullptr;
  std::size_t rows = 0;
  std::size_t vocab = 0;
  /// How many are wanted, at least 1 and at most vocab.
  std::size_t wanted = 0;
  /// For how many there is room: with all that equal the last one, or else without any of these.
  std::size_t room = 0;
  /// [rows, room], in any order: all tokens whose logit is at least the least of these.
  token_logit* entries = nullptr;
  /// [rows]: how many entries were written. 0 if too many logits equal the best one, and 0 if the row has a
  /// NaN: the CPU reports no best tokens for such a row either.
  std::uint32_t* counts = nullptr;
};

/// @errors device_error; kernel_error where `wanted` is not in its range
void top_logits(const stream& on, const top_logits_args& args);

} // namespace troupe::kernels::cuda
