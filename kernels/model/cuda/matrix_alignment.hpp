// Where parts of matrices may begin.
#pragma once

#include <cstddef>

namespace troupe::model {

/// What begins at such addresses can be read in the largest pieces that there are.
inline constexpr std::size_t matrix_alignment = 256;

constexpr std::size_t aligned(std::size_t num_bytes) {
  return (num_bytes + matrix_alignment - 1) / matrix_alignment * matrix_alignment;
}

} // namespace troupe::model
