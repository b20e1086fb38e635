// Padded numbers of rows for decode steps on a GPU, so that few graphs serve all of them.
#pragma once

#include <cstddef>

namespace troupe::model {

/// Larger decode steps run kernel by kernel: their launches cost little beside their computation.
inline constexpr std::size_t most_graph_rows = 64;

/// The padded size of a step of `rows` rows: 1, 2, or the next multiple of 4. Products of few rows take eight
/// at a time, so padding costs little more than copying the answers of at most three rows.
constexpr std::size_t decode_bucket(std::size_t rows) {
  return rows <= 2 ? rows : (rows + 3) / 4 * 4;
}

} // namespace troupe::model
