#include "kernels/expert_ffn.hpp"

#include <algorithm>

#include "kernels/cpu/product.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels {

namespace {

// Rows of one pass, all segments together: bounds scratch. 2048 rows of hidden 1024 and FFN 1792: 23 MiB.
constexpr std::size_t pass_rows = 2048;
constexpr std::size_t serial_rows = 8;

// Rows of a segment that a pass takes.
struct piece {
  const expert_segment* segment;
  std::size_t first; // row in the segment
  std::size_t rows;
  std::size_t input_offset;  // bytes into the packed inputs
  std::size_t hidden_offset; // bytes into the activations between the products
};

struct tile {
  std::uint32_t piece;
  std::uint32_t row; // in the piece
  std::uint32_t rows;
  std::uint32_t panel;
  std::uint32_t panels;
};

// A pass's working memory, carved from the shared scratch.
struct pass_memory {
  std::span<piece> pieces;
  tile* tiles;
  std::byte* inputs;
  std::byte* hidden;
};

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
    expect(weights.down.format() == weights.gate_up.format(), "expert_ffn: weights differ in format");
    expect(is_quantized(weights.gate_up.format())
               || (weights.gate_up.format() == packed_format::f32_panel) == (args.row_type == dtype::f32),
           "expert_ffn: row type and weights do not go together");
  }
}

std::size_t tiles_of(context& ctx, const packed_matrix& weight, std::size_t rows) {
  const cpu::tile_shape shape = cpu::tiles_for(ctx.table(), weight, rows, ctx.threads());
  return (rows + shape.rows - 1) / shape.rows * ((weight.shape().panels() + shape.panels - 1) / shape.panels);
}

// Tiles of one of the two products, segment by segment, rows outside: a thread that takes neighbours streams
// on.
std::span<tile> list_tiles(context& ctx, const pass_memory& memory,
                           const packed_matrix expert_weights::*product, std::size_t& scratch_bytes) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < memory.pieces.size(); ++i) {
    const piece& p = memory.pieces[i];
    const packed_matrix& weight = p.segment->weights->*product;
    const std::size_t panels = weight.shape().panels();
    const cpu::tile_shape shape = cpu::tiles_for(ctx.table(), weight, p.rows, ctx.threads());
    scratch_bytes = std::max(scratch_bytes, cpu::tile_scratch_bytes(shape));
    for (std::size_t row = 0; row < p.rows; row += shape.rows)
      for (std::size_t panel = 0; panel < panels; panel += shape.panels)
        memory.tiles[count++] = {static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(row),
                                 static_cast<std::uint32_t>(std::min(shape.rows, p.rows - row)),
                                 static_cast<std::uint32_t>(panel),
                                 static_cast<std::uint32_t>(std::min(shape.panels, panels - panel))};
  }
  return {memory.tiles, count};
}

void pack_inputs(context& ctx, const expert_ffn_args& args, const pass_memory& memory, std::size_t rows) {
  // Row r of the pass: which piece it lies in is found by walking on from the last one.
  const auto pack = [&](std::size_t begin, std::size_t end) {
    std::size_t base = 0;
    for (const piece& p : memory.pieces) {
      const expert_weights& weights = *p.segment->weights;
      const cpu::row_map map(ctx.table(), weights.gate_up, p.rows);
      for (std::size_t r = std::max(begin, base); r < std::min(end, base + p.rows); ++r)
        cpu::pack_row(ctx.table(), map.layout(), p.segment->inputs[p.first + r - base], args.row_type,
                      weights.hidden(), memory.inputs + p.input_offset + map.offset(r - base));
      base += p.rows;
    }
  };
  if (rows <= serial_rows)
    ctx.pool().parallel_dynamic(1, 1, [&](unsigned, std::size_t, std::size_t) { pack(0, rows); });
  else
    ctx.pool().parallel_static(rows, [&](unsigned, std::size_t begin, std::size_t end) { pack(begin, end); });
}

// h = act(gate) · up of one tile, as rows for the second product.
void activate_tile(const kernel_table& table, const pass_memory& memory, const tile& t,
                   const cpu::tile_sums& sums) {
  const piece& p = memory.pieces[t.piece];
  const expert_weights& weights = *p.segment->weights;
  const std::size_t step = weights.gated() ? 2 : 1;
  const cpu::row_map map(table, weights.down, p.rows);
  const std::size_t column = t.panel / step * panel_columns;
  const std::size_t columns = std::min(t.panels / step * panel_columns, weights.ffn() - column);
  // Whoever has the last columns fills the last block of 32 with zeros: it is K of the next product, and
  // scratch holds anything. Zero weights alone do not help against NaN.
  const std::size_t end =
      column + columns == weights.ffn() ? (weights.ffn() + 31) / 32 * 32 : column + columns;
  const float* gate_bias = weights.gate_bias != nullptr ? weights.gate_bias + column : nullptr;
  const float* up_bias = weights.up_bias != nullptr ? weights.up_bias + column : nullptr;
  // Integers are made of whole rows later.
  const row_layout layout = map.layout() == row_layout::int8 ? row_layout::bf16_split : map.layout();
  for (std::size_t r = 0; r < t.rows; ++r) {
    const float* gate = sums.c + r * panel_columns;
    table.activate_columns(weights.act, gate, gate_bias, weights.gated() ? gate + sums.panel_stride : nullptr,
                           up_bias, step * sums.panel_stride, columns, column, end,
                           memory.hidden + p.hidden_offset + map.offset(t.row + r), layout);
  }
}

// Rows between the products become integers once they are whole: their scale needs all of them.
void quantize_hidden(context& ctx, const pass_memory& memory, std::size_t rows) {
  const auto quantize = [&](unsigned, std::size_t begin, std::size_t end) {
    std::size_t base = 0;
    for (const piece& p : memory.pieces) {
      const packed_matrix& down = p.segment->weights->down;
      const cpu::row_map map(ctx.table(), down, p.rows);
      for (std::size_t r = std::max(begin, base); r < std::min(end, base + p.rows); ++r)
        if (map.layout() == row_layout::int8)
          ctx.table().quant.quantize_product_row(memory.hidden + p.hidden_offset + map.offset(r - base),
                                                 down.inputs());
      base += p.rows;
    }
  };
  if (rows <= serial_rows)
    ctx.pool().parallel_dynamic(
        1, 1, [&](unsigned thread, std::size_t, std::size_t) { quantize(thread, 0, rows); });
  else
    ctx.pool().parallel_static(rows, quantize);
}

void output_tile(const kernel_table& table, const expert_ffn_args& args, const pass_memory& memory,
                 const tile& t, const cpu::tile_sums& sums) {
  const piece& p = memory.pieces[t.piece];
  const expert_weights& weights = *p.segment->weights;
  const std::size_t column = t.panel * panel_columns;
  const std::size_t columns = std::min(t.panels * panel_columns, weights.hidden() - column);
  for (std::size_t r = 0; r < t.rows; ++r)
    table.finish_row(sums.c + r * panel_columns, sums.panel_stride,
                     weights.down_bias != nullptr ? weights.down_bias + column : nullptr, columns,
                     p.segment->outputs[p.first + t.row + r] + bytes_of(args.row_type, column), args.row_type,
                     false);
}

void run_pass(context& ctx, const expert_ffn_args& args, const pass_memory& memory, std::size_t rows) {
  const kernel_table& table = ctx.table();
  pack_inputs(ctx, args, memory, rows);

  std::size_t scratch_bytes = 0;
  std::span<tile> tiles = list_tiles(ctx, memory, &expert_weights::gate_up, scratch_bytes);
  ctx.pool().parallel_dynamic(tiles.size(), 1, [&](unsigned thread, std::size_t begin, std::size_t end) {
    std::byte* scratch = ctx.thread_scratch(thread, scratch_bytes);
    for (const tile& t : tiles.subspan(begin, end - begin)) {
      const piece& p = memory.pieces[t.piece];
      const expert_weights& weights = *p.segment->weights;
      const cpu::row_map map(table, weights.gate_up, p.rows);
      const std::byte* a = memory.inputs + p.input_offset + map.offset(t.row);
      activate_tile(
          table, memory, t,
          cpu::multiply_tile(table, weights.gate_up, map.layout(), a, t.rows, t.panel, t.panels, scratch));
    }
  });

  if (std::any_of(memory.pieces.begin(), memory.pieces.end(),
                  [](const piece& p) { return p.segment->weights->down.rows() == row_quant::int8; }))
    quantize_hidden(ctx, memory, rows);

  scratch_bytes = 0;
  tiles = list_tiles(ctx, memory, &expert_weights::down, scratch_bytes);
  ctx.pool().parallel_dynamic(tiles.size(), 1, [&](unsigned thread, std::size_t begin, std::size_t end) {
    std::byte* scratch = ctx.thread_scratch(thread, scratch_bytes);
    for (const tile& t : tiles.subspan(begin, end - begin)) {
      const piece& p = memory.pieces[t.piece];
      const expert_weights& weights = *p.segment->weights;
      const cpu::row_map map(table, weights.down, p.rows);
      const std::byte* a = memory.hidden + p.hidden_offset + map.offset(t.row);
      output_tile(
          table, args, memory, t,
          cpu::multiply_tile(table, weights.down, map.layout(), a, t.rows, t.panel, t.panels, scratch));
    }
  });
}

// Sizes of a pass: first counted, then carved.
struct pass_sizes {
  std::size_t pieces = 0;
  std::size_t rows = 0;
  std::size_t tiles = 0; // of the larger product
  std::size_t inputs = 0;
  std::size_t hidden = 0;
};

// Adds the rows from (segment, row) on that fit one pass; calls `add` per piece and moves the cursor on.
template <class Add>
void fill_pass(const expert_ffn_args& args, std::size_t& segment, std::size_t& row, const Add& add) {
  std::size_t rows = 0;
  while (segment < args.segments.size() && rows < pass_rows) {
    const expert_segment& s = args.segments[segment];
    const std::size_t take = std::min(s.inputs.size() - row, pass_rows - rows);
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
      sizes.inputs += cpu::row_map(ctx.table(), s.weights->gate_up, rows).bytes(rows);
      sizes.hidden += cpu::row_map(ctx.table(), s.weights->down, rows).bytes(rows);
    });
    if (sizes.rows == 0)
      continue;
    sizes.tiles = std::max(sizes.tiles, tiles_down);

    const std::size_t piece_bytes = line_up(sizes.pieces * sizeof(piece));
    const std::size_t tile_bytes = line_up(sizes.tiles * sizeof(tile));
    std::byte* at = ctx.shared_scratch(piece_bytes + tile_bytes + sizes.inputs + sizes.hidden);
    pass_memory memory{{reinterpret_cast<piece*>(at), sizes.pieces},
                       reinterpret_cast<tile*>(at + piece_bytes),
                       at + piece_bytes + tile_bytes,
                       nullptr};
    memory.hidden = memory.inputs + sizes.inputs;
    std::size_t count = 0;
    std::size_t inputs = 0;
    std::size_t hidden = 0;
    fill_pass(args, from_segment, from_row,
              [&](const expert_segment& s, std::size_t first, std::size_t rows) {
                memory.pieces[count++] = {&s, first, rows, inputs, hidden};
                inputs += cpu::row_map(ctx.table(), s.weights->gate_up, rows).bytes(rows);
                hidden += cpu::row_map(ctx.table(), s.weights->down, rows).bytes(rows);
              });
    run_pass(ctx, args, memory, sizes.rows);
  }
}

} // namespace troupe::kernels
