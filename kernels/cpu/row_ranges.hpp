// Rows shared out to threads, for ops that work row by row.
#pragma once

#include <cstddef>

#include "kernels/context.hpp"

namespace troupe::kernels::cpu {

/// Elements below which waking other threads costs more than it saves: 16 Ki elements are a few microseconds.
inline constexpr std::size_t worth_forking = 16384;

/// Calls `function(row)` for every row, on all threads when there is enough to do.
template <class Function>
void over_row_ranges(context& ctx, std::size_t rows, std::size_t columns, const Function& function) {
  const auto run = [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t row = begin; row < end; ++row)
      function(row);
  };
  if (rows == 0)
    return;
  if (rows * columns < worth_forking)
    ctx.pool().parallel_dynamic(rows, rows, run);
  else
    ctx.pool().parallel_static(rows, run);
}

} // namespace troupe::kernels::cpu
