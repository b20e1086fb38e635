#include "kernels/combine.hpp"

#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/cpu/tables/kernel_table.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

void combine(context& ctx, const combine_args& args) {
  const std::size_t rows = args.residual.rows;
  expect(args.rows.size() == rows * args.top_k && args.weights.size() == rows * args.top_k,
         "combine: rows and weights are not [rows, top_k]");
  expect(args.residual.type == dtype::f32, "combine: the residual is not f32");
  cpu::over_row_ranges(ctx, rows, args.residual.cols * args.top_k, [&](std::size_t r) {
    ctx.table().combine_row(args.rows.data() + r * args.top_k, args.weights.data() + r * args.top_k,
                            args.top_k, args.row_type, args.residual.cols, args.residual.row_as<float>(r));
  });
}

void add_shared_expert(context& ctx, const shared_gate_args& args) {
  const std::size_t hidden = args.residual.cols;
  expect(args.shared.rows == args.residual.rows && args.shared.cols == hidden,
         "add_shared_expert: shapes differ");
  expect(args.gate == nullptr || (args.input.rows == args.residual.rows && args.input.cols == hidden),
         "add_shared_expert: shapes differ");
  expect(args.residual.type == dtype::f32, "add_shared_expert: the residual is not f32");
  const kernel_table& table = ctx.table();
  cpu::over_row_ranges(ctx, args.residual.rows, hidden, [&](std::size_t r) {
    float gate = 1.0F;
    if (args.gate != nullptr) {
      const float logit = table.dot(args.input.row(r), args.input.type, args.gate, hidden);
      table.sigmoid_row(&logit, 1, &gate);
    }
    table.add_scaled_row(args.shared.row(r), args.shared.type, args.factor * gate, hidden,
                         args.residual.row_as<float>(r));
  });
}

} // namespace troupe::kernels
