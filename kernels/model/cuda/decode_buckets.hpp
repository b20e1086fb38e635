// The numbers of rows that decode steps have on a GPU, so that few graphs serve all of them.
#pragma once

#include <cstddef>

namespace troupe::model {

/// Decode steps of more rows are given kernel by kernel: launching costs little beside what they compute.
inline constexpr std::size_t most_graph_rows = 64;

/// Rows that a step of `rows` rows is padded to: 1, 2, or the next multiple of 4. Products of few rows take
/// eight of them at a time, so padding costs little more than the bytes of its rows on their way to the
/// experts' answers and back: at most three rows.
constexpr std::size_t decode_bucket(std::size_t rows) {
  return rows <= 2 ? rows : (rows + 3) / 4 * 4;
}

} // namespace troupe::model
