// Copies rows into the order of the experts.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device.hpp"

namespace troupe::kernels::cuda {

/// Pointers are to device memory.
struct permute_args {
  /// [num_input_rows, row_bytes], `input_stride` bytes apart; both multiples of 16.
  const void* input = nullptr;
  std::size_t input_stride = 0;
  std::size_t num_input_rows = 0;
  std::size_t row_bytes = 0;
  /// [rows]: output row i is input row entries[i] / divisor. With top_k as divisor, these are the entries of
  /// `build_expert_table`.
  const std::uint32_t* entries = nullptr;
  std::uint32_t divisor = 1;
  std::size_t rows = 0;
  /// Number of written `entries`, in device memory (an expert table's last offset); null: all `rows`.
  const std::uint32_t* num_valid = nullptr;
  /// [rows, row_bytes], dense.
  void* output = nullptr;
};

/// Copies rows, 16 bytes at a time.
void permute(const stream& on, const permute_args& args);

} // namespace troupe::kernels::cuda
