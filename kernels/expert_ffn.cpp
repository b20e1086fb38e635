#include "kernels/expert_ffn.hpp"

#include <algorithm>

#include "kernels/cpu/gemm/product.hpp"
#include "kernels/cpu/rows/row_ranges.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

// Rows of one pass over all segments; bounds scratch. 2048 rows of hidden 1024 and FFN 1792: 23 MiB.
constexpr std::size_t rows_in_pass = 2048;

// Rows of a segment within a pass.
struct piece {
  const expert_segment* segment;
  std::size_t first; // row in the segment
  std::size_t rows;
  std::size_t input_offset;  // bytes into the packed inputs
  std::size_t hidden_offset; // bytes into the activations between the products
  std::size_t staged_offset; // bytes into the activations that wait for their scale
};

struct tile {
  std::uint32_t piece;
  std::uint32_t row; // in the piece
  std::uint32_t rows;
  cpu::panel_range panels;
};

// Working memory of a pass, carved from the shared scratch.
struct pass_memory {
  std::span<piece> pieces;
  tile* tiles;
  std::byte* inputs;
  std::byte* hidden;
  std::byte* staged;
};

const product_regime& regime_of(context& ctx, const packed_matrix& weight, std::size_t rows) {
  return ctx.plan().regime(weight, rows);
}

cpu::row_map map_of(context& ctx, const packed_matrix& weight, std::size_t rows) {
  return {regime_of(ctx, weight, rows), weight};
}

// Activations that become int8 rows wait as BF16 until a row is whole. The stride has one extra line: with a
// power of two, rows would fall into one set of the caches.
std::size_t staged_stride(const packed_matrix& down) {
  return (bytes_of(dtype::bf16, down.inputs()) + 63) / 64 * 64 + 64;
}

bool waits_for_scale(const cpu::row_map& map) {
  return map.layout() == row_layout::int8 || map.layout() == row_layout::int8_tiles;
}

std::size_t staged_bytes(context& ctx, const packed_matrix& down, std::size_t rows) {
  return waits_for_scale(map_of(ctx, down, rows)) ? rows * staged_stride(down) : 0;
}

void check(const expert_ffn_args& args) {
  expect(args.row_type == dtype::f32 || args.row_type == dtype::bf16, "expert_ffn: rows are f32 or bf16");
  for (const expert_segment& segment : args.segments) {
    expect(segment.inputs.size() == segment.outputs.size(),
           "expert_ffn: inputs and outputs differ in number");
    if (segment.inputs.empty())
      continue;
    expect(segment.weights != nullptr, "expert_ffn: a segment has no weights");
    const expert_weights& weights = *segment.weights;
    expect(weights.down.shape().interleave == 1 && weights.down.inputs() == weights.ffn()
               && weights.down.outputs() == weights.hidden(),
           "expert_ffn: down is not [hidden, ffn]");
    expect(weights.gated() || weights.act != activation::clamped_glu, "expert_ffn: clamped_glu needs a gate");
    expect(weights.down.format() == weights.gate_up.format(), "expert_ffn: weights differ in format");
    expect(is_quantized(weights.gate_up.format())
               || (weights.gate_up.format() == packed_format::f32_panel) == (args.row_type == dtype::f32),
           "expert_ffn: row type and weights do not go together");
  }
}

std::size_t tiles_of(context& ctx, const packed_matrix& weight, std::size_t rows) {
  const cpu::tile_shape shape = cpu::tiles_for(regime_of(ctx, weight, rows), weight, rows, ctx.threads());
  return (rows + shape.rows - 1) / shape.rows * cpu::panel_tiles(weight, shape);
}

// Tiles of one of the two products, segment by segment, rows in the outer loop: a thread that takes
// neighbouring tiles continues its stream of weights.
std::span<tile> list_tiles(context& ctx, const pass_memory& memory,
                           const packed_matrix expert_weights::*product, std::size_t& scratch_bytes) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < memory.pieces.size(); ++i) {
    const piece& p = memory.pieces[i];
    const packed_matrix& weight = p.segment->weights->*product;
    const product_regime& regime = regime_of(ctx, weight, p.rows);
    const cpu::tile_shape shape = cpu::tiles_for(regime, weight, p.rows, ctx.threads());
    scratch_bytes = std::max(scratch_bytes, cpu::tile_scratch_bytes(regime, weight, p.rows, shape));
    for (std::size_t row = 0; row < p.rows; row += shape.rows)
      for (std::size_t t = 0; t < cpu::panel_tiles(weight, shape); ++t)
        memory.tiles[count++] = {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(row),
                                 static_cast<std::uint32_t>(std::min(shape.rows, p.rows - row)),
                                 cpu::panel_tile(weight, shape, t)};
  }
  return {memory.tiles, count};
}

void pack_inputs(context& ctx, const expert_ffn_args& args, const pass_memory& memory, std::size_t rows) {
  // Finds the piece of row r of the pass by walking on from the previous one.
  const auto pack = [&](unsigned, std::size_t begin, std::size_t end) {
    std::size_t base = 0;
    for (const piece& p : memory.pieces) {
      const expert_weights& weights = *p.segment->weights;
      const product_regime& regime = regime_of(ctx, weights.gate_up, p.rows);
      const cpu::row_map map(regime, weights.gate_up);
      for (std::size_t r = std::max(begin, base); r < std::min(end, base + p.rows); ++r)
        map.pack(ctx.table(regime.set), p.segment->inputs[p.first + r - base], args.row_type,
                 memory.inputs + p.input_offset, r - base);
      base += p.rows;
    }
  };
  cpu::over_row_parts(ctx, rows, rows >= ctx.plan().least_packed_rows, pack);
}

// h = act(gate) · up of a part of a tile, as rows of the second product.
void activate_part(context& ctx, const pass_memory& memory, const tile& t, const cpu::panel_range& panels,
                   std::size_t row, std::size_t rows, const cpu::tile_sums& sums, panel_fetch& fetch) {
  const piece& p = memory.pieces[t.piece];
  const expert_weights& weights = *p.segment->weights;
  const std::size_t step = weights.gated() ? 2 : 1;
  const product_regime& next = regime_of(ctx, weights.down, p.rows); // the product that takes these rows
  const cpu::row_map map(next, weights.down);
  const std::size_t column = panels.first / step * panel_columns;
  const std::size_t columns = std::min(panels.count / step * panel_columns, weights.ffn() - column);
  activation_block block{.kind = weights.act,
                         .limit = weights.act_limit,
                         .gate = sums.c,
                         .gate_bias = weights.gate_bias != nullptr ? weights.gate_bias + column : nullptr,
                         .up = weights.gated() ? sums.c + sums.panel_stride : nullptr,
                         .up_bias = weights.up_bias != nullptr ? weights.up_bias + column : nullptr,
                         .panel_stride = step * sums.panel_stride,
                         .rows = rows,
                         .column = column,
                         .columns = columns};
  // Columns are K of the next product. The last tile pads K to blocks of 32 with zeros: scratch may hold NaN
  // there, and NaN times a zero weight is NaN.
  block.end = column + columns == weights.ffn() ? (weights.ffn() + 31) / 32 * 32 : column + columns;
  if (waits_for_scale(map)) {
    block.row_stride = staged_stride(weights.down);
    block.tile_stride = 16 * block.row_stride;
    block.out = memory.staged + p.staged_offset + (t.row + row) * block.row_stride;
    block.layout = row_layout::bf16;
  } else {
    block.row_stride = map.row_stride();
    block.tile_stride = map.tile_stride();
    block.out = memory.hidden + p.hidden_offset + map.offset(t.row + row);
    block.layout = map.layout();
  }
  block.fetch = &fetch;
  ctx.table(next.set).activate_rows(block);
}

// Quantizes rows between the products once they are whole: the scale needs all of a row.
void quantize_hidden(context& ctx, const pass_memory& memory, std::size_t rows) {
  const auto quantize = [&](unsigned, std::size_t begin, std::size_t end) {
    std::size_t base = 0;
    for (const piece& p : memory.pieces) {
      const packed_matrix& down = p.segment->weights->down;
      const product_regime& regime = regime_of(ctx, down, p.rows);
      const cpu::row_map map(regime, down);
      for (std::size_t r = std::max(begin, base); waits_for_scale(map) && r < std::min(end, base + p.rows);
           ++r)
        map.pack(ctx.table(regime.set), memory.staged + p.staged_offset + (r - base) * staged_stride(down),
                 dtype::bf16, memory.hidden + p.hidden_offset, r - base);
      base += p.rows;
    }
  };
  cpu::over_row_parts(ctx, rows, rows >= ctx.plan().least_packed_rows, quantize);
}

void output_part(const kernel_table& table, const expert_ffn_args& args, const pass_memory& memory,
                 const tile& t, const cpu::panel_range& panels, std::size_t row, std::size_t rows,
                 const cpu::tile_sums& sums, panel_fetch& fetch) {
  const piece& p = memory.pieces[t.piece];
  const expert_weights& weights = *p.segment->weights;
  const std::size_t column = panels.first * panel_columns;
  finish_block block{.sum = sums.c,
                     .panel_stride = sums.panel_stride,
                     .bias = weights.down_bias != nullptr ? weights.down_bias + column : nullptr,
                     .rows = rows,
                     .columns = std::min(panels.count * panel_columns, weights.hidden() - column)};
  block.out = p.segment->outputs.data() + p.first + t.row + row;
  block.offset = bytes_of(args.row_type, column);
  block.type = args.row_type;
  block.fetch = &fetch;
  table.finish_rows(block);
}

// Runs one of the two products: `finish(tile, panels, row, rows, sums, fetch)` uses the sums of parts of
// tiles.
template <class Finish>
void run_product(context& ctx, const pass_memory& memory, const packed_matrix expert_weights::*product,
                 std::byte* rows, const std::size_t piece::*offset, const Finish& finish) {
  std::size_t scratch_bytes = 0;
  const std::span<tile> tiles = list_tiles(ctx, memory, product, scratch_bytes);
  ctx.pool().parallel_items(tiles.size(), [&](unsigned thread, std::size_t i, std::size_t next) {
    const tile& t = tiles[i];
    const piece& p = memory.pieces[t.piece];
    const packed_matrix& weight = p.segment->weights->*product;
    const product_regime& regime = regime_of(ctx, weight, p.rows);
    const cpu::tile_work work{ctx.table(regime.set),
                              regime,
                              t.panels,
                              rows + p.*offset + cpu::row_map(regime, weight).offset(t.row),
                              t.rows,
                              next < tiles.size() ? tiles[next].panels : cpu::panel_range{}};
    cpu::multiply_tile(work, ctx.thread_scratch(thread, scratch_bytes),
                       [&](auto&&... part) { finish(t, part...); });
  });
}

void run_pass(context& ctx, const expert_ffn_args& args, const pass_memory& memory, std::size_t rows) {
  const kernel_table& table = ctx.table();
  pack_inputs(ctx, args, memory, rows);
  run_product(ctx, memory, &expert_weights::gate_up, memory.inputs, &piece::input_offset,
              [&](const tile& t, const cpu::panel_range& panels, std::size_t row, std::size_t count,
                  const cpu::tile_sums& sums,
                  panel_fetch& fetch) { activate_part(ctx, memory, t, panels, row, count, sums, fetch); });
  if (std::any_of(memory.pieces.begin(), memory.pieces.end(),
                  [](const piece& p) { return p.segment->weights->down.rows() == row_quant::int8; }))
    quantize_hidden(ctx, memory, rows);
  run_product(ctx, memory, &expert_weights::down, memory.hidden, &piece::hidden_offset,
              [&](const tile& t, const cpu::panel_range& panels, std::size_t row, std::size_t count,
                  const cpu::tile_sums& sums, panel_fetch& fetch) {
                output_part(table, args, memory, t, panels, row, count, sums, fetch);
              });
}

// Sizes of a pass: counted first, then carved.
struct pass_sizes {
  std::size_t pieces = 0;
  std::size_t rows = 0;
  std::size_t tiles = 0; // of the larger product
  std::size_t inputs = 0;
  std::size_t hidden = 0;
  std::size_t staged = 0;
};

// Adds the rows from (segment, row) on that fit in one pass: calls `add` per piece and advances the cursor.
template <class Add>
void fill_pass(const expert_ffn_args& args, std::size_t& segment, std::size_t& row, const Add& add) {
  std::size_t rows = 0;
  while (segment < args.segments.size() && rows < rows_in_pass) {
    const expert_segment& s = args.segments[segment];
    const std::size_t take = std::min(s.inputs.size() - row, rows_in_pass - rows);
    if (take > 0)
      add(s, row, take);
    rows += take;
    row += take;
    if (row == s.inputs.size()) {
      ++segment;
      row = 0;
    }
  }
}

std::size_t line_up(std::size_t num_bytes) {
  return (num_bytes + 63) / 64 * 64;
}

} // namespace

void expert_ffn(context& ctx, const expert_ffn_args& args) {
  check(args);
  std::size_t segment = 0;
  std::size_t row = 0;
  while (segment < args.segments.size()) {
    pass_sizes sizes;
    std::size_t tiles_down = 0;
    std::size_t from_segment = segment;
    std::size_t from_row = row;
    fill_pass(args, segment, row, [&](const expert_segment& s, std::size_t, std::size_t rows) {
      ++sizes.pieces;
      sizes.rows += rows;
      sizes.tiles += tiles_of(ctx, s.weights->gate_up, rows);
      tiles_down += tiles_of(ctx, s.weights->down, rows);
      sizes.inputs += map_of(ctx, s.weights->gate_up, rows).bytes(rows);
      sizes.hidden += map_of(ctx, s.weights->down, rows).bytes(rows);
      sizes.staged += staged_bytes(ctx, s.weights->down, rows);
    });
    if (sizes.rows == 0)
      continue;
    sizes.tiles = std::max(sizes.tiles, tiles_down);

    const std::size_t piece_bytes = line_up(sizes.pieces * sizeof(piece));
    const std::size_t tile_bytes = line_up(sizes.tiles * sizeof(tile));
    std::byte* at = ctx.shared_scratch(piece_bytes + tile_bytes + sizes.inputs + sizes.hidden + sizes.staged);
    pass_memory memory{{reinterpret_cast<piece*>(at), sizes.pieces},
                       reinterpret_cast<tile*>(at + piece_bytes),
                       at + piece_bytes + tile_bytes,
                       nullptr,
                       nullptr};
    memory.hidden = memory.inputs + sizes.inputs;
    memory.staged = memory.hidden + sizes.hidden;
    std::size_t count = 0;
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    std::size_t staged = 0;
    fill_pass(args, from_segment, from_row,
              [&](const expert_segment& s, std::size_t first, std::size_t rows) {
                memory.pieces[count++] = {&s, first, rows, inputs, hidden, staged};
                inputs += map_of(ctx, s.weights->gate_up, rows).bytes(rows);
                hidden += map_of(ctx, s.weights->down, rows).bytes(rows);
                staged += staged_bytes(ctx, s.weights->down, rows);
              });
    run_pass(ctx, args, memory, sizes.rows);
  }
}

} // namespace troupe::kernels
