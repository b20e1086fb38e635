#include "kernels/query_factors.hpp"

#include <cmath>

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"
#include "kernels/portable_math.hpp"

namespace troupe::kernels {

std::vector<float> query_factors(double scale, double floor, std::size_t positions) {
  if (!(floor > 0.0) || !std::isfinite(floor) || !std::isfinite(scale))
    throw kernel_error("query factors: floor_scale must be positive, and attn_scale a number");
  std::vector<float> factors(positions);
  for (std::size_t p = 0; p < positions; ++p)
    factors[p] = static_cast<float>(
        1.0 + scale * portable_log(1.0 + std::floor((static_cast<double>(p) + 1.0) / floor)));
  return factors;
}

void scale_queries(context& ctx, tensor_view rows, std::span<const std::uint32_t> positions,
                   std::span<const float> factors) {
  expect(rows.type == dtype::f32, "scale_queries: rows are not f32");
  expect(positions.size() == rows.rows, "scale_queries: one position per row is needed");
  for (const std::uint32_t position : positions)
    expect(position < factors.size(), "scale_queries: a position is outside the table");
  cpu::over_row_ranges(ctx, rows.rows, rows.cols, [&](std::size_t r) {
    ctx.table().scale_row(rows.row(r), rows.type, factors[positions[r]], rows.cols, rows.row(r), rows.type);
  });
}

} // namespace troupe::kernels
