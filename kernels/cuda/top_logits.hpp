// Finds the best tokens of each row.
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
  /// Wanted number, at least 1 and at most vocab.
  std::size_t wanted = 0;
  /// Size of the output: used for all that equal the last one, otherwise for none of these.
  std::size_t room = 0;
  /// [rows, room], in any order: all tokens whose logit is at least the least of these.
  token_logit* entries = nullptr;
  /// [rows]: number of written entries. 0 if too many logits equal the best one, and 0 if the row has a NaN:
  /// the CPU reports no best tokens for such a row either.
  std::uint32_t* counts = nullptr;
};

/// @throws device_error; kernel_error if `wanted` is out of range
void top_logits(const stream& on, const top_logits_args& args);

} // namespace troupe::kernels::cuda
