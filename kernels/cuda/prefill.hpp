// Causal attention of many rows of the same sequences, on the tensor cores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention.hpp"

namespace troupe::kernels::cuda {

/// Rows of the batch that belong to one sequence and have consecutive positions.
struct row_run {
  std::uint32_t first_row = 0;
  std::uint32_t rows = 0;
  std::uint32_t sequence = 0;
  /// Of the first row.
  std::uint32_t position = 0;

  friend bool operator==(const row_run&, const row_run&) = default;
};

/// Cuts a batch into the longest such runs, of at most `most_rows`.
std::vector<row_run> runs_of(std::span<const std::uint32_t> sequences,
                             std::span<const std::uint32_t> positions, std::size_t most_rows = 1024);

/// Pointers are to device memory.
struct prefill_args {
  /// `sequences`, `positions`, `split_keys`, `most_position` and `workspace` are not used.
  attention_args attention;
  /// [num_runs].
  const row_run* runs = nullptr;
  std::size_t num_runs = 0;
  /// No run has more rows.
  std::size_t most_rows = 0;
};

/// softmax(scale · q kᵀ) v. The heads of a group count as rows, so that they share keys and values; a block
/// has 64 such rows and goes through the keys 32 at a time, from position 0. As on the CPU, probabilities are
/// rounded to BF16 before they meet the values, and of int8 caches the integers are multiplied.
///
/// A row's bits depend on its query and the keys it sees, however the batch is cut; they are not the bits of
/// `attention`, which serves decoding (and, where both must agree, everything). A value of NaN at a later
/// position of the same sequence may reach rows of the same 32 keys.
/// @source "FlashAttention-2": rows kept, keys streamed, sums rescaled
void prefill(const stream& on, const prefill_args& args);

} // namespace troupe::kernels::cuda
