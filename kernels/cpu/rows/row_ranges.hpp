// Distributes rows over threads, for ops that work row by row.
#pragma once

#include <cstddef>

#include "kernels/context.hpp"
#include "kernels/cpu/gemm/plan.hpp"

namespace troupe::kernels::cpu {

/// Calls `function(thread, begin, end)` for all rows on the calling thread, or for a part of them on every
/// thread if forking pays.
template <class Function>
void over_row_parts(context& ctx, std::size_t rows, bool fork, const Function& function) {
  if (rows == 0)
    return;
  if (fork)
    ctx.pool().parallel_static(rows, function);
  else
    ctx.pool().parallel_dynamic(rows, rows, function);
}

/// Calls `function(row)` for every row, on all threads if there is enough work.
template <class Function>
void over_row_ranges(context& ctx, std::size_t rows, std::size_t columns, const Function& function) {
  over_row_parts(ctx, rows, rows * columns >= ctx.plan().least_elements,
                 [&](unsigned, std::size_t begin, std::size_t end) {
                   for (std::size_t row = begin; row < end; ++row)
                     function(row);
                 });
}

} // namespace troupe::kernels::cpu
