#include "kernels/gemm.hpp"

#include <algorithm>

#include "kernels/cpu/gemm/product.hpp"
#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

// Rows of one pass; bounds the scratch of the expanded rows (1024 rows of K 4096: 16 MiB).
constexpr std::size_t pass_rows = 1024;

void check(const gemm_args& args) {
  expect(args.weight != nullptr && args.weight->shape().interleave == 1, "gemm: one plain weight is needed");
  expect(args.input.cols == args.weight->inputs(), "gemm: input columns differ from the weight's K");
  expect(args.output.cols == args.weight->outputs(), "gemm: output columns differ from the weight's N");
  expect(args.input_rows.empty() ? args.input.rows == args.output.rows
                                 : args.input_rows.size() == args.output.rows,
         "gemm: rows of input and output differ");
  expect(args.input.type == dtype::f32 || args.input.type == dtype::bf16, "gemm: input is not f32 or bf16");
  expect(args.output.type == dtype::f32 || args.output.type == dtype::bf16,
         "gemm: output is not f32 or bf16");
  expect(args.mode == gemm_output::replace || args.output.type == dtype::f32,
         "gemm: only f32 outputs add up");
}

void run_pass(context& ctx, const gemm_args& args, std::size_t first, std::size_t rows) {
  const packed_matrix& weight = *args.weight;
  const product_regime& regime = ctx.plan().regime(weight, rows);
  const kernel_table& table = ctx.table(regime.set);
  const cpu::row_map map(regime, weight);
  std::byte* a = ctx.shared_scratch(map.bytes(rows));
  const auto pack = [&](unsigned, std::size_t begin, std::size_t end) {
    for (std::size_t r = begin; r < end; ++r) {
      const std::size_t from = args.input_rows.empty() ? first + r : args.input_rows[first + r];
      map.pack(table, args.input.row(from), args.input.type, a, r);
    }
  };
  cpu::over_row_parts(ctx, rows, rows >= ctx.plan().least_packed_rows, pack);

  const cpu::tile_shape tile = cpu::tiles_for(regime, weight, rows, ctx.threads());
  const std::size_t panel_tiles = cpu::panel_tiles(weight, tile);
  const std::size_t row_tiles = (rows + tile.rows - 1) / tile.rows;
  // Panels run fastest: a thread's rows stay in its L2.
  const auto panels_of = [&](std::size_t i) { return cpu::panel_tile(weight, tile, i % panel_tiles); };
  const std::size_t count = row_tiles * panel_tiles;
  const std::size_t scratch_bytes = cpu::tile_scratch_bytes(regime, weight, rows, tile);
  ctx.pool().parallel_items(count, [&](unsigned thread, std::size_t i, std::size_t next) {
    const std::size_t first_row = i / panel_tiles * tile.rows;
    const cpu::tile_work work{table,
                              regime,
                              panels_of(i),
                              a + map.offset(first_row),
                              std::min(tile.rows, rows - first_row),
                              next < count ? panels_of(next) : cpu::panel_range{}};
    cpu::multiply_tile(
        work, ctx.thread_scratch(thread, scratch_bytes),
        [&](const cpu::panel_range& part, std::size_t row, std::size_t row_count, const cpu::tile_sums& sums,
            panel_fetch& fetch) {
          const std::size_t column = part.first * panel_columns;
          finish_block block{.sum = sums.c,
                             .panel_stride = sums.panel_stride,
                             .bias = args.bias != nullptr ? args.bias + column : nullptr,
                             .rows = row_count,
                             .columns = std::min(part.count * panel_columns, weight.outputs() - column)};
          block.first = args.output.row(first + first_row + row) + bytes_of(args.output.type, column);
          block.stride = bytes_of(args.output.type, args.output.row_stride);
          block.type = args.output.type;
          block.accumulate = args.mode == gemm_output::add;
          block.factor = args.factor;
          block.fetch = &fetch;
          table.finish_rows(block);
        });
  });
}

} // namespace

void gemm(context& ctx, const gemm_args& args) {
  check(args);
  for (std::size_t first = 0; first < args.output.rows; first += pass_rows)
    run_pass(ctx, args, first, std::min(pass_rows, args.output.rows - first));
}

} // namespace troupe::kernels
