#include "kernels/elementwise.hpp"

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

void add_rows(context& ctx, const_tensor_view rows, tensor_view accumulator, float factor) {
  expect(rows.rows == accumulator.rows && rows.cols == accumulator.cols, "add_rows: shapes differ");
  expect(accumulator.type == dtype::f32, "add_rows: the accumulator is not f32");
  cpu::over_row_ranges(ctx, rows.rows, rows.cols, [&](std::size_t r) {
    ctx.table().add_scaled_row(rows.row(r), rows.type, factor, rows.cols, accumulator.row_as<float>(r));
  });
}

void divide_rows(context& ctx, tensor_view rows, float divisor) {
  expect(rows.type == dtype::f32, "divide_rows: rows are not f32");
  cpu::over_row_ranges(ctx, rows.rows, rows.cols, [&](std::size_t r) {
    auto* row = rows.row_as<float>(r);
    for (std::size_t i = 0; i < rows.cols; ++i)
      row[i] /= divisor;
  });
}

void scale_rows(context& ctx, const_tensor_view input, std::span<const float> factors, tensor_view output) {
  expect(input.rows == output.rows && input.cols == output.cols, "scale_rows: shapes differ");
  expect(factors.size() == input.rows, "scale_rows: one factor per row is needed");
  cpu::over_row_ranges(ctx, input.rows, input.cols, [&](std::size_t r) {
    ctx.table().scale_row(input.row(r), input.type, factors[r], input.cols, output.row(r), output.type);
  });
}

void convert_rows(context& ctx, const_tensor_view input, tensor_view output) {
  expect(input.rows == output.rows && input.cols == output.cols, "convert_rows: shapes differ");
  cpu::over_row_ranges(ctx, input.rows, input.cols, [&](std::size_t r) {
    ctx.table().scale_row(input.row(r), input.type, 1.0F, input.cols, output.row(r), output.type);
  });
}

void gated_activation(context& ctx, activation kind, const_tensor_view gate, const_tensor_view up,
                      tensor_view output, float limit) {
  expect(gate.rows == output.rows && gate.cols == output.cols && up.rows == output.rows
             && up.cols == output.cols,
         "gated_activation: shapes differ");
  cpu::over_row_ranges(ctx, gate.rows, gate.cols, [&](std::size_t r) {
    ctx.table().activate_row(kind, limit, gate.row(r), gate.type, up.row(r), up.type, gate.cols,
                             output.row(r), output.type);
  });
}

void activate(context& ctx, activation kind, const_tensor_view input, tensor_view output, float limit) {
  expect(input.rows == output.rows && input.cols == output.cols, "activate: shapes differ");
  cpu::over_row_ranges(ctx, input.rows, input.cols, [&](std::size_t r) {
    ctx.table().activate_row(kind, limit, input.row(r), input.type, nullptr, dtype::f32, input.cols,
                             output.row(r), output.type);
  });
}

} // namespace troupe::kernels
