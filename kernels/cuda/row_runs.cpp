#include "kernels/cuda/row_runs.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

std::vector<row_run> runs_of(std::span<const std::uint32_t> sequences,
                             std::span<const std::uint32_t> positions, std::size_t most_rows) {
  expect(sequences.size() == positions.size(), "cuda runs_of: sequences and positions differ in number");
  std::vector<row_run> runs;
  for (std::size_t r = 0; r < sequences.size(); ++r) {
    const bool continues = !runs.empty() && runs.back().sequence == sequences[r]
                           && runs.back().rows < most_rows
                           && runs.back().position + runs.back().rows == positions[r];
    if (continues)
      ++runs.back().rows;
    else
      runs.push_back({static_cast<std::uint32_t>(r), 1, sequences[r], positions[r]});
  }
  return runs;
}

} // namespace troupe::kernels::cuda
