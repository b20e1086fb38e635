#include "kernels/head_products.hpp"

#include <algorithm>

#include "kernels/cpu/gemm/product.hpp"
#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

// Inputs of all heads of one pass; bounds the scratch of the expanded rows to 16 MiB, or a row of each head.
constexpr std::size_t pass_inputs = std::size_t{1} << 22;

bool is_row_type(dtype type) {
  return type == dtype::f32 || type == dtype::bf16;
}

void check(const head_products_args& args) {
  const packed_matrix& first = args.weights.front();
  for (const packed_matrix& weight : args.weights)
    expect(weight.shape() == first.shape() && weight.rows() == first.rows(),
           "head_products: the heads' weights differ in shape");
  expect(first.shape().interleave == 1, "head_products: plain weights are needed");
  const std::size_t last = args.weights.size() - 1;
  expect(args.input.cols >= last * args.input_step + first.inputs(),
         "head_products: the last head's inputs end after the columns");
  expect(args.output.cols >= last * args.output_step + first.outputs()
             && (last == 0 || args.output_step >= first.outputs()),
         "head_products: outputs overlap or end after the columns");
  expect(args.input.rows == args.output.rows, "head_products: rows of input and output differ");
  expect(is_row_type(args.input.type) && is_row_type(args.output.type),
         "head_products: input or output is not f32 or bf16");
}

void run_pass(context& ctx, const head_products_args& args, std::size_t first, std::size_t rows) {
  const std::size_t heads = args.weights.size();
  const packed_matrix& any = args.weights.front();
  const product_regime& regime = ctx.plan().regime(any, rows);
  const kernel_table& table = ctx.table(regime.set);
  const cpu::row_map map(regime, any);
  const std::size_t head_bytes = map.bytes(rows);
  std::byte* a = ctx.shared_scratch(heads * head_bytes);
  // Head by head: the pieces of a row are packed apart.
  cpu::over_row_parts(ctx, heads * rows, heads * rows >= ctx.plan().least_packed_rows,
                      [&](unsigned, std::size_t begin, std::size_t end) {
                        for (std::size_t i = begin; i < end; ++i) {
                          const std::size_t h = i / rows;
                          const std::byte* from = args.input.row(first + i % rows)
                                                  + bytes_of(args.input.type, h * args.input_step);
                          map.pack(table, from, args.input.type, a + h * head_bytes, i % rows);
                        }
                      });

  // Heads are work for all threads already.
  const auto threads = static_cast<unsigned>(cpu::ceil_div(ctx.threads(), heads));
  const cpu::tile_shape tile = cpu::tiles_for(regime, any, rows, threads);
  const std::size_t panel_tiles = cpu::panel_tiles(any, tile);
  const std::size_t of_head = (rows + tile.rows - 1) / tile.rows * panel_tiles;
  const std::size_t count = heads * of_head;
  const auto panels_of = [&](std::size_t i) {
    return cpu::panel_tile(args.weights[i / of_head], tile, i % panel_tiles);
  };
  const std::size_t scratch_bytes = cpu::tile_scratch_bytes(regime, any, rows, tile);
  ctx.pool().parallel_items(count, [&](unsigned thread, std::size_t i, std::size_t next) {
    const std::size_t head = i / of_head;
    const std::size_t first_row = i % of_head / panel_tiles * tile.rows;
    const cpu::tile_work work{table,
                              regime,
                              panels_of(i),
                              a + head * head_bytes + map.offset(first_row),
                              std::min(tile.rows, rows - first_row),
                              next < count ? panels_of(next) : cpu::panel_range{}};
    cpu::multiply_tile(work, ctx.thread_scratch(thread, scratch_bytes),
                       [&](const cpu::panel_range& part, std::size_t row, std::size_t row_count,
                           const cpu::tile_sums& sums, panel_fetch& fetch) {
                         const std::size_t column = part.first * panel_columns;
                         finish_block block{.sum = sums.c,
                                            .panel_stride = sums.panel_stride,
                                            .rows = row_count,
                                            .columns =
                                                std::min(part.count * panel_columns, any.outputs() - column)};
                         block.first = args.output.row(first + first_row + row)
                                       + bytes_of(args.output.type, head * args.output_step + column);
                         block.stride = bytes_of(args.output.type, args.output.row_stride);
                         block.type = args.output.type;
                         block.fetch = &fetch;
                         table.finish_rows(block);
                       });
  });
}

} // namespace

void head_products(context& ctx, const head_products_args& args) {
  if (args.weights.empty())
    return;
  check(args);
  const std::size_t inputs_of_row = args.weights.size() * args.weights.front().inputs();
  const std::size_t rows_at_once = std::max<std::size_t>(pass_inputs / inputs_of_row, 1);
  for (std::size_t first = 0; first < args.output.rows; first += rows_at_once)
    run_pass(ctx, args, first, std::min(rows_at_once, args.output.rows - first));
}

} // namespace troupe::kernels
