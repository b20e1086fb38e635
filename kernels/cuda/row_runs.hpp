// Cuts a batch into runs of rows that see nearly the same keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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

/// Cuts a batch into the longest such runs of at most `most_rows`.
/// @throws kernel_error  the numbers of positions and sequences differ
std::vector<row_run> runs_of(std::span<const std::uint32_t> sequences,
                             std::span<const std::uint32_t> positions, std::size_t most_rows);

} // namespace troupe::kernels::cuda
