// Alignment of parts of matrices.
#pragma once

#include <cstddef>

namespace troupe::model {

/// Memory at such addresses can be read with the largest loads.
inline constexpr std::size_t matrix_alignment = 256;

constexpr std::size_t aligned(std::size_t num_bytes) {
  return (num_bytes + matrix_alignment - 1) / matrix_alignment * matrix_alignment;
}

} // namespace troupe::model
