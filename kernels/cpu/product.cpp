#include "kernels/cpu/product.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/quant_product.hpp"

namespace troupe::kernels::cpu {

namespace {

constexpr std::size_t block_k = 32;
constexpr std::size_t block_bytes = 1024; // a panel's 32 of K in BF16

// Up to this many rows are limited by memory: panels are read by short turns, four side by side.
constexpr std::size_t few_rows = 12;

// K of a panel chunk, widened or unpacked: 16 KiB of L1.
constexpr std::size_t chunk_blocks = 8;
constexpr std::size_t chunk_k = chunk_blocks * block_k;

// Unpacked weights of a thread: that chunk, or what a matrix unit multiplies at a time. int4 for int8 rows
// takes what a part's panels take.
constexpr std::size_t unpacked_bytes = std::size_t{32} << 10;
static_assert(unpacked_bytes >= chunk_k * panel_columns * sizeof(float));

// So few rows meet quantized weights in vector registers, even where there is a matrix unit: unpacking into
// memory first takes as long as they do. Where there are dot products of BF16, somewhat more.
constexpr std::size_t quant_vector_rows = 2;
constexpr std::size_t quant_dot_vector_rows = 4;

constexpr std::size_t many_rows = 192; // × 256 of K × 4 bytes = 192 KiB of L2
constexpr std::size_t many_panels = 8;
constexpr std::size_t tiles_per_thread = 8; // so that none waits long for the last
constexpr std::size_t streams = 4;

// Where few rows read a tile's panels as streams: these begin anew with every tile, and a thread has nothing
// on its way meanwhile, so tiles are large.
constexpr std::size_t stream_tile_bytes = std::size_t{512} << 10;
constexpr std::size_t stream_tiles_per_thread = 2;

// On a matrix unit: bytes of rows that stay in L2 with the panels that pass, and panels of a tile, more of
// few rows, so that a tile is worth taking.
constexpr std::size_t tile_rows_bytes = std::size_t{1} << 19;
constexpr std::size_t tile_floats = std::size_t{64} * 1024;
constexpr std::size_t tile_panels = 16;

// Sums that a matrix unit makes at a time, at most 48 KiB. With fewer panels rows are read from L2 more
// often, with more it was no faster; of long panels fewer, since those that come next lie in L2 beside them.
constexpr tile_shape tile_part{96, 8};
constexpr std::size_t part_bytes = std::size_t{256} << 10;
// Of each coded panel so much is fetched while rows of the part before are finished.
constexpr std::size_t coded_bytes_ahead = 4096;
constexpr std::size_t unpacked_part_panels = 4; // of weights that BF16 rows have unpacked

// So many int8 rows and fewer are rows of their own, not tiles: with int4, which would be unpacked for all of
// K first, twice as many.
constexpr std::size_t few_int8_rows = 16;
constexpr std::size_t few_int8_rows_with_int4 = 32;

// Into L2, while what is there already is multiplied.
void fetch_chunk(const std::byte* chunk, std::size_t bytes) {
  if (chunk != nullptr)
    for (std::size_t line = 0; line < bytes; line += 64)
      __builtin_prefetch(chunk + line, 0, 2);
}

// `a_stride` elements between rows.
template <class Element>
rows_and_panels<Element> product_of(const panel_range& range, const Element* a, std::size_t a_stride,
                                    std::size_t rows, const upcoming_panels& next, float* c) {
  const packed_shape& shape = range.weight->shape();
  return {.a = a,
          .a_stride = a_stride,
          .rows = rows,
          .panel = range.weight->panel(range.first),
          .panel_stride = shape.panel_bytes(),
          .panels = range.count,
          .blocks = shape.padded_inputs() / block_k,
          .c = c,
          .next = next,
          .run_stride = range.stride * shape.panel_bytes()};
}

// Coded weights as packed pairs, a part of K at a time, in `decoded`.
void multiply_decoded(const kernel_table& table, const panel_range& range, const float* a, std::size_t rows,
                      float* c, std::byte* decoded) {
  const packed_matrix& weight = *range.weight;
  const std::size_t blocks = weight.shape().padded_inputs() / block_k;
  for (std::size_t p = 0; p < range.count; ++p)
    for (std::size_t b = 0; b < blocks; b += chunk_blocks) {
      const std::size_t count = std::min(chunk_blocks, blocks - b);
      table.decode_bf16(weight.panel(range.first + p), blocks, b, count, decoded);
      table.bf16_direct({.a = a + b * block_k,
                         .a_stride = product_stride(weight.inputs()),
                         .rows = rows,
                         .panel = decoded,
                         .panel_stride = count * block_bytes,
                         .panels = 1,
                         .blocks = count,
                         .c = c + p * rows * panel_columns});
    }
}

void multiply_bf16(const kernel_table& table, const panel_range& range, const float* a, std::size_t rows,
                   const upcoming_panels& next, float* c, float* expanded) {
  const packed_matrix& weight = *range.weight;
  const std::size_t first = range.first;
  const std::size_t panels = range.count;
  const std::size_t stride = product_stride(weight.inputs());
  const std::size_t blocks = weight.shape().padded_inputs() / block_k;
  if (range.runs > 1 || rows <= table.bf16_direct_rows) {
    const panel_product product = product_of(range, a, stride, rows, next, c);
    if (range.runs > 1)
      table.bf16_runs(product);
    else
      table.bf16_direct(product);
    return;
  }
  for (std::size_t b = 0; b < blocks; b += chunk_blocks) {
    const std::size_t count = std::min(chunk_blocks, blocks - b);
    const bool last = b + count == blocks;
    for (std::size_t p = 0; p < panels; ++p) {
      table.expand_bf16(weight.panel(first + p) + b * block_bytes, count, expanded);
      fetch_chunk(p + 1 < panels ? weight.panel(first + p + 1) + b * block_bytes
                  : last         ? next.first
                                 : weight.panel(first) + (b + count) * block_bytes,
                  count * block_bytes);
      table.bf16_expanded(a + b * block_k, stride, rows, expanded, count, c + p * rows * panel_columns,
                          panel_columns);
    }
  }
}

void multiply_dots(const kernel_table& table, const panel_range& range, const bfloat16* a, std::size_t rows,
                   const upcoming_panels& next, float* c) {
  const dot_product product = product_of(range, a, dot_stride(range.weight->inputs()), rows, next, c);
  const bool coded = range.weight->format() == packed_format::bf16_coded;
  if (range.runs > 1)
    (coded ? table.coded_dot_runs : table.bf16_dot_runs)(product);
  else
    (coded ? table.coded_dots : table.bf16_dots)(product);
}

void multiply_f32(const kernel_table& table, const packed_matrix& weight, const float* a, std::size_t rows,
                  std::size_t first, std::size_t panels, float* c) {
  const std::size_t stride = product_stride(weight.inputs());
  const std::size_t inputs = weight.inputs();
  const std::size_t step = rows <= few_rows ? 16 : chunk_k;
  for (std::size_t k = 0; k < inputs; k += step)
    for (std::size_t p = 0; p < panels; ++p)
      table.f32_panel(a + k, stride, rows,
                      reinterpret_cast<const float*>(weight.panel(first + p)) + k * panel_columns,
                      std::min(step, inputs - k), c + p * rows * panel_columns, panel_columns);
}

std::size_t ceil_div(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

row_layout layout_for(const kernel_table& table, const packed_matrix& weight, std::size_t rows) {
  if (weight.format() == packed_format::f32_panel)
    return row_layout::f32;
  if (weight.rows() == row_quant::int8) {
    const std::size_t few =
        weight.format() == packed_format::int8_channel ? few_int8_rows : few_int8_rows_with_int4;
    return table.int8_tiles != nullptr && rows > few ? row_layout::int8_tiles : row_layout::int8;
  }
  const std::size_t vector_rows = table.bf16_dots != nullptr ? quant_dot_vector_rows : quant_vector_rows;
  if (is_quantized(weight.format()) && rows <= vector_rows)
    return row_layout::bf16_split;
  if (table.bf16_dots != nullptr)
    return row_layout::bf16_dots;
  return table.bf16_tiles != nullptr ? row_layout::bf16_tiles : row_layout::bf16_split;
}

// Bytes of 16 rows in tiles.
std::size_t tile_row_stride(row_layout layout, std::size_t inputs) {
  return layout == row_layout::int8_tiles ? int8_row_sums(inputs) * 16 + 16 * sizeof(float)
                                          : ceil_div(inputs, block_k) * block_bytes;
}

// Bytes between rows, or between tiles of 16.
std::size_t row_stride_of(row_layout layout, std::size_t inputs) {
  switch (layout) {
  case row_layout::bf16_tiles:
  case row_layout::int8_tiles:
    return tile_row_stride(layout, inputs);
  case row_layout::int8:
    return int8_row_stride(inputs);
  case row_layout::bf16_dots:
    return dot_stride(inputs) * sizeof(bfloat16);
  default:
    return product_stride(inputs) * sizeof(float);
  }
}

// A power of two, so that halves hold whole pairs of gate and up.
std::size_t panels_of_streams(const packed_shape& weight) {
  std::size_t panels = streams;
  while (2 * panels * weight.panel_bytes() <= stream_tile_bytes)
    panels *= 2;
  return panels;
}

tile_shape matrix_unit_tile(row_layout layout, const packed_shape& weight, std::size_t rows) {
  const std::size_t most =
      std::max<std::size_t>(tile_rows_bytes / (tile_row_stride(layout, weight.inputs) / 16) / 32 * 32, 64);
  tile_shape tile{rows, rows <= 16 ? panels_of_streams(weight) : many_panels};
  if (rows > most) // split evenly, in whole pairs of tiles
    tile.rows = ceil_div(ceil_div(rows, ceil_div(rows, most)), 32) * 32;
  if (rows > 16) // a power of two, so that halves hold whole pairs of gate and up
    while (tile.panels < tile_panels && 2 * tile.panels * tile.rows * panel_columns <= tile_floats)
      tile.panels *= 2;
  return tile;
}

quant_panel panel_of(const packed_matrix& weight, std::size_t index) {
  const packed_shape& shape = weight.shape();
  const std::byte* data = weight.panel(index);
  return {shape.format, data, shape.group() == 0 ? nullptr : data + shape.panel_weight_bytes(),
          shape.group() / block_k, reinterpret_cast<const float*>(data + shape.panel_scales_offset())};
}

// A part's panels that are unpacked whole before rows meet them: int4, which int8 rows meet as int8, and
// coded ones where so many rows come that they would be decoded for one part of these after the other.
bool unpacks_panels(row_layout layout, const packed_matrix& weight, std::size_t rows) {
  if (layout == row_layout::int8_tiles)
    return weight.format() != packed_format::int8_channel;
  return layout == row_layout::bf16_tiles && weight.format() == packed_format::bf16_coded
         && rows > tile_part.rows;
}

// Bytes of such a panel.
std::size_t unpacked_panel_bytes(row_layout layout, const packed_matrix& weight) {
  return layout == row_layout::int8_tiles ? int8_row_sums(weight.inputs()) * panel_columns
                                          : weight.shape().padded_inputs() / block_k * block_bytes;
}

std::size_t unpacked_size(row_layout layout, const packed_matrix& weight, std::size_t rows) {
  return unpacks_panels(layout, weight, rows) ? tile_part.panels * unpacked_panel_bytes(layout, weight)
                                              : unpacked_bytes;
}

// On a matrix unit: whether so many rows meet a tile's panels once, as these come from memory.
bool streams_panels(row_layout layout, const packed_matrix& weight, std::size_t rows) {
  const bool as_they_come = layout == row_layout::int8_tiles ? weight.format() == packed_format::int8_channel
                                                             : !is_quantized(weight.format());
  return rows <= (as_they_come ? 32U : 16U);
}

// A power of two, at least a pair of gate and up.
std::size_t panels_of_part(const packed_shape& weight) {
  std::size_t panels = tile_part.panels;
  while (panels > 2 && panels * weight.panel_bytes() > part_bytes)
    panels /= 2;
  return panels;
}

tile_shape part_of(row_layout layout, const packed_matrix& weight, const tile_shape& tile) {
  const bool tiles = layout == row_layout::bf16_tiles || layout == row_layout::int8_tiles;
  if (!tiles || streams_panels(layout, weight, tile.rows))
    return tile;
  // Weights that are unpacked for BF16 rows are so again for every part.
  if (layout == row_layout::bf16_tiles && is_quantized(weight.format()))
    return {tile.rows, unpacked_part_panels};
  return {ceil_div(ceil_div(tile.rows, ceil_div(tile.rows, tile_part.rows)), 32) * 32,
          panels_of_part(weight.shape())};
}

upcoming_panels upcoming(const panel_range& panels, const panel_range& next) {
  const packed_matrix* weight = next.weight;
  if (weight == nullptr || weight->shape().panel_bytes() != panels.weight->shape().panel_bytes())
    return {};
  return {weight->panel(next.first), next.count, next.stride * weight->shape().panel_bytes()};
}

// Runs of panels that so few rows are to read side by side.
std::size_t runs_for(const kernel_table& table, row_layout layout, const packed_shape& weight,
                     std::size_t rows) {
  rows_in_runs wanted;
  if (layout == row_layout::int8)
    wanted =
        weight.format == packed_format::int8_channel ? table.quant.int8_run_rows : table.quant.int4_run_rows;
  else if (layout == row_layout::bf16_dots && weight.format == packed_format::bf16_coded)
    wanted = table.coded_run_rows;
  else if ((layout == row_layout::bf16_dots || layout == row_layout::bf16_split)
           && weight.format == packed_format::bf16_pair)
    wanted = table.bf16_run_rows;
  return wanted.has(rows) && weight.panels() >= panel_runs * weight.interleave ? panel_runs : 1;
}

// Panels of a run, a whole number of pairs of gate and up; what is left over of all runs is no run.
std::size_t panels_of_run(const packed_matrix& weight, const tile_shape& tile) {
  const std::size_t unit = tile.runs * weight.shape().interleave;
  return weight.shape().panels() / unit * weight.shape().interleave;
}

} // namespace

row_map::row_map(const kernel_table& table, const packed_matrix& weight, std::size_t rows)
    : layout_(layout_for(table, weight, rows)),
      inputs_(weight.inputs()),
      stride_(row_stride_of(layout_, inputs_)) {}

std::size_t row_map::bytes(std::size_t rows) const {
  return in_tiles() ? ceil_div(rows, 16) * stride_ : rows * stride_;
}

void row_map::pack(const kernel_table& table, const std::byte* row, dtype type, std::byte* rows,
                   std::size_t r) const {
  std::byte* out = rows + offset(r);
  switch (layout_) {
  case row_layout::f32:
    table.pack_row_f32(row, type, inputs_, reinterpret_cast<float*>(out));
    break;
  case row_layout::bf16_split:
    table.pack_row_bf16(row, type, inputs_, reinterpret_cast<float*>(out));
    break;
  case row_layout::bf16_dots:
    table.pack_row_dots(row, type, inputs_, reinterpret_cast<bfloat16*>(out));
    break;
  case row_layout::bf16_tiles:
    table.pack_row_tiles(row, type, inputs_, out);
    break;
  case row_layout::int8:
    table.quant.quantize_row(row, type, inputs_, out);
    break;
  case row_layout::int8_tiles: {
    std::byte* scales = rows + r / 16 * stride_ + int8_row_sums(inputs_) * 16;
    table.quantize_row_tiles(row, type, inputs_, out, reinterpret_cast<float*>(scales) + r % 16);
    break;
  }
  case row_layout::bf16:
    break; // not a row of a product
  }
}

tile_shape tiles_for(const kernel_table& table, const packed_matrix& weight, std::size_t rows,
                     unsigned threads) {
  const packed_shape& shape = weight.shape();
  const row_layout layout = layout_for(table, weight, rows);
  // Integer products walk four panels and fetch the next four.
  const bool few = rows <= few_rows && layout != row_layout::int8;
  tile_shape tile{std::min(rows, many_rows), few ? streams : many_panels};
  if (table.panels_in_streams && layout == row_layout::int8)
    tile.panels = panels_of_streams(shape);
  if (layout == row_layout::bf16_tiles || layout == row_layout::int8_tiles)
    tile = matrix_unit_tile(layout, shape, rows);
  else if (rows > many_rows) // rows split evenly
    tile.rows = ceil_div(rows, ceil_div(rows, many_rows));
  tile.runs = runs_for(table, layout, shape, rows);
  if (tile.runs > 1)
    tile.panels = many_panels;
  const auto tiles = [&] { return ceil_div(rows, tile.rows) * ceil_div(shape.panels(), tile.panels); };
  const std::size_t least = (table.panels_in_streams ? stream_tiles_per_thread : tiles_per_thread) * threads;
  while (rows > 0 && tile.panels > tile.runs * shape.interleave && tiles() < least)
    tile.panels /= 2;
  return tile;
}

std::size_t panel_tiles(const packed_matrix& weight, const tile_shape& tile) {
  const std::size_t of_run = panels_of_run(weight, tile);
  return ceil_div(of_run, tile.panels / tile.runs)
         + ceil_div(weight.shape().panels() - tile.runs * of_run, tile.panels);
}

panel_range panel_tile(const packed_matrix& weight, const tile_shape& tile, std::size_t index) {
  const std::size_t of_run = panels_of_run(weight, tile);
  const std::size_t at_once = tile.panels / tile.runs;
  const std::size_t in_runs = ceil_div(of_run, at_once);
  if (index < in_runs) {
    const std::size_t first = index * at_once;
    return {&weight, first, std::min(at_once, of_run - first), tile.runs, of_run};
  }
  const std::size_t first = tile.runs * of_run + (index - in_runs) * tile.panels;
  return {&weight, first, std::min(tile.panels, weight.shape().panels() - first)};
}

tile_shape part_of(const tile_work& work) {
  return part_of(work.layout, *work.panels.weight, {work.rows, work.panels.count, work.panels.runs});
}

std::size_t tile_scratch_bytes(const kernel_table& table, const packed_matrix& weight, std::size_t rows,
                               const tile_shape& tile) {
  const row_layout layout = layout_for(table, weight, rows);
  const tile_shape part = part_of(layout, weight, tile);
  return unpacked_size(layout, weight, tile.rows)
         + ceil_div(part.rows, 16) * 16 * part.panels * panel_columns * sizeof(float);
}

void begin_panels(const tile_work& work, const panel_range& panels, const panel_range& next,
                  std::byte* scratch, panel_fetch& fetch) {
  const packed_matrix& weight = *panels.weight;
  const bool tiles = work.layout == row_layout::bf16_tiles || work.layout == row_layout::int8_tiles;
  if (!tiles || streams_panels(work.layout, weight, work.rows))
    return;
  if (next.weight != nullptr) {
    const packed_shape& shape = next.weight->shape();
    const std::size_t count = std::min(next.count, panels_of_part(shape));
    if (shape.format == packed_format::bf16_coded && !unpacks_panels(work.layout, weight, work.rows)) {
      // Who decodes panels beside products fetches them, but not while rows are finished.
      fetch.begin(next.weight->panel(next.first), shape.panel_bytes(),
                  std::min(shape.panel_bytes(), coded_bytes_ahead), count, work.rows);
    } else {
      // A step for each product of tiles, and one for each row that is finished. Unpacked weights make only
      // the latter: a part of what is next is not fetched then.
      const std::size_t blocks = ceil_div(weight.inputs(), work.layout == row_layout::int8_tiles ? 64 : 32);
      fetch.begin(next.weight->panel(next.first), shape.panel_bytes(), shape.panel_bytes(), count,
                  ceil_div(work.rows, 16) * panels.count * blocks + work.rows);
    }
  }
  if (!unpacks_panels(work.layout, weight, work.rows))
    return;
  for (std::size_t p = 0; p < panels.count; ++p) {
    std::byte* to = scratch + p * unpacked_panel_bytes(work.layout, weight);
    if (weight.format() == packed_format::bf16_coded) {
      const std::size_t blocks = weight.shape().padded_inputs() / block_k;
      work.table.decode_bf16(weight.panel(panels.first + p), blocks, 0, blocks, to);
    } else {
      work.table.unpack_int4(panel_of(weight, panels.first + p), weight.inputs(), to);
    }
  }
}

tile_sums multiply_part(const tile_work& work, const panel_range& panels, const panel_range& next,
                        std::size_t row, std::size_t rows, std::byte* scratch, panel_fetch& fetch) {
  const kernel_table& table = work.table;
  const packed_matrix& weight = *panels.weight;
  const packed_shape& shape = weight.shape();
  auto* c = reinterpret_cast<float*>(scratch + unpacked_size(work.layout, weight, work.rows));
  if (work.layout == row_layout::bf16_tiles || work.layout == row_layout::int8_tiles) {
    const std::size_t c_stride = ceil_div(rows, 16) * 16 * panel_columns;
    tile_product product{.a = work.a + row / 16 * tile_row_stride(work.layout, weight.inputs()),
                         .a_stride = tile_row_stride(work.layout, weight.inputs()),
                         .rows = rows,
                         .panel = weight.panel(panels.first),
                         .panel_stride = shape.panel_bytes(),
                         .panels = panels.count,
                         .c = c,
                         .c_stride = c_stride,
                         .streamed = streams_panels(work.layout, weight, work.rows),
                         .next = upcoming(panels, next),
                         .fetch = &fetch};
    const bool unpacked = unpacks_panels(work.layout, weight, work.rows);
    if (unpacked) {
      product.panel = scratch;
      product.panel_stride = unpacked_panel_bytes(work.layout, weight);
    }
    if (work.layout == row_layout::int8_tiles) {
      product.blocks = int8_row_sums(weight.inputs()) / 64;
      table.int8_tiles(product);
      for (std::size_t p = 0; p < panels.count; ++p)
        table.scale_int8_tiles(panel_of(weight, panels.first + p).scales, product.a, product.a_stride, rows,
                               weight.inputs(), c + p * c_stride);
    } else if (is_quantized(shape.format)) {
      multiply_unpacked_tiles(table, weight, product.a, rows, panels.first, panels.count, c, c_stride,
                              scratch, unpacked_bytes);
    } else {
      product.blocks = shape.padded_inputs() / block_k;
      const bool coded = shape.format == packed_format::bf16_coded && !unpacked;
      (coded ? table.coded_tiles : table.bf16_tiles)(product);
    }
    return {c, c_stride};
  }
  auto* expanded = reinterpret_cast<float*>(scratch);
  const std::size_t stride = row_stride_of(work.layout, weight.inputs()) / sizeof(float);
  const auto* x = reinterpret_cast<const float*>(work.a) + row * stride;
  if (work.layout != row_layout::int8)
    std::memset(c, 0, rows * panels.runs * panels.count * panel_columns * sizeof(float));
  if (weight.format() == packed_format::f32_panel)
    multiply_f32(table, weight, x, rows, panels.first, panels.count, c);
  else if (is_quantized(weight.format()) && work.layout == row_layout::bf16_dots)
    multiply_quantized_dots(table, panels, reinterpret_cast<const bfloat16*>(x), dot_stride(weight.inputs()),
                            rows, c, scratch, unpacked_bytes);
  else if (is_quantized(weight.format()))
    multiply_quantized(table, panels, x, stride, rows, c, expanded, chunk_blocks, upcoming(panels, next));
  else if (work.layout == row_layout::bf16_dots)
    multiply_dots(table, panels, reinterpret_cast<const bfloat16*>(x), rows, upcoming(panels, next), c);
  else if (weight.format() == packed_format::bf16_coded)
    multiply_decoded(table, panels, x, rows, c, scratch);
  else
    multiply_bf16(table, panels, x, rows, upcoming(panels, next), c, expanded);
  return {c, rows * panel_columns};
}

} // namespace troupe::kernels::cpu
