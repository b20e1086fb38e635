// Divides rows into register blocks. Included only by the kernels of each instruction set.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/cpu/simd/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Calls `run<rows>(arguments...)` for 1 to `Most` rows.
template <std::size_t Most, class Run, class... Arguments>
TROUPE_INLINE void with_row_count(std::size_t rows, const Run& run, const Arguments&... arguments) {
  [&]<std::size_t... Less>(std::index_sequence<Less...>) {
    // Exactly one of them runs: the one for this number of rows.
    ((rows == Less + 1 ? run.template operator()<Less + 1>(arguments...) : void()), ...);
  }
  (std::make_index_sequence<Most>{});
}

/// Calls `run<Count>(row)` for register blocks of at most `Most` rows, as equal as possible: 8 rows are 4 +
/// 4.
template <std::size_t Most, class Run>
TROUPE_INLINE void in_row_blocks(std::size_t rows, const Run& run) {
  std::size_t blocks = (rows + Most - 1) / Most;
  for (std::size_t row = 0; row < rows; --blocks) {
    const std::size_t count = (rows - row + blocks - 1) / blocks;
    with_row_count<Most>(count, run, row);
    row += count;
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
