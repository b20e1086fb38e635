#include "kernels/norm.hpp"

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

void rms_norm(context& ctx, const rms_norm_args& args) {
  const std::size_t group = args.group != 0 ? args.group : args.input.cols;
  expect(args.input.rows == args.output.rows && args.input.cols == args.output.cols,
         "rms_norm: shapes of input and output differ");
  expect(group == 0 || args.input.cols % group == 0, "rms_norm: columns are not a multiple of the group");
  const kernel_table& table = ctx.table();
  cpu::over_row_ranges(ctx, args.input.rows, args.input.cols, [&](std::size_t r) {
    for (std::size_t column = 0; column < args.input.cols; column += group)
      table.rms_norm_row(args.input.row(r) + bytes_of(args.input.type, column), args.input.type, args.weight,
                         args.weight_offset, args.epsilon, group,
                         args.output.row(r) + bytes_of(args.output.type, column), args.output.type);
  });
}

void layer_norm(context& ctx, const layer_norm_args& args) {
  expect(args.input.rows == args.output.rows && args.input.cols == args.output.cols,
         "layer_norm: shapes of input and output differ");
  const kernel_table& table = ctx.table();
  cpu::over_row_ranges(ctx, args.input.rows, args.input.cols, [&](std::size_t r) {
    table.layer_norm_row(args.input.row(r), args.input.type, args.weight, args.bias, args.epsilon,
                         args.input.cols, args.output.row(r), args.output.type);
  });
}

} // namespace troupe::kernels
