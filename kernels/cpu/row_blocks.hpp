// Rows dealt to register blocks. Included by the kernels of each instruction set only.
#pragma once

#include <cstddef>
#include <utility>

#include "kernels/cpu/simd.hpp"

namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE {

/// Calls `run<Count>(row)` for register blocks of at most `Most` rows, as even as they come: 8 rows are 4
/// + 4.
template <std::size_t Most, class Run>
TROUPE_INLINE void in_row_blocks(std::size_t rows, const Run& run) {
  std::size_t blocks = (rows + Most - 1) / Most;
  for (std::size_t row = 0; row < rows; --blocks) {
    const std::size_t count = (rows - row + blocks - 1) / blocks;
    [&]<std::size_t... Less>(std::index_sequence<Less...>) {
      // One of them: as many rows as there are.
      ((count == Less + 1 ? run.template operator()<Less + 1>(row) : void()), ...);
    }
    (std::make_index_sequence<Most>{});
    row += count;
  }
}

} // namespace troupe::kernels::cpu::TROUPE_ISA_NAMESPACE
