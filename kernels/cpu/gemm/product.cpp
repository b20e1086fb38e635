#include "kernels/cpu/gemm/product.hpp"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/quantized_product.hpp"

namespace troupe::kernels::cpu {

namespace {

// K of a panel chunk, widened or unpacked: 16 KiB of L1.
constexpr std::size_t chunk_blocks = 8;
constexpr std::size_t chunk_k = chunk_blocks * block_k;

// Unpacked weights of a thread: that chunk, or the panels that a matrix unit multiplies at a time. int4 for
// int8 rows needs the size of a part's panels.
constexpr std::size_t thread_unpacked_bytes = std::size_t{32} << 10;
static_assert(thread_unpacked_bytes >= chunk_k * panel_columns * sizeof(float));

// Bytes of each coded panel that are prefetched while rows of the previous part are finished.
constexpr std::size_t coded_bytes_ahead = 4096;

// Prefetches into L2, while data that is there already is multiplied.
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

// Decodes coded weights to packed pairs in `decoded`, a part of K at a time, and multiplies them.
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
                         .panel_stride = count * pair_block_bytes,
                         .panels = 1,
                         .blocks = count,
                         .c = c + p * rows * panel_columns});
    }
}

void multiply_bf16(const kernel_table& table, const panel_range& range, bool widens_once, const float* a,
                   std::size_t rows, const upcoming_panels& next, float* c, float* expanded) {
  const packed_matrix& weight = *range.weight;
  const std::size_t first = range.first;
  const std::size_t panels = range.count;
  const std::size_t stride = product_stride(weight.inputs());
  const std::size_t blocks = weight.shape().padded_inputs() / block_k;
  if (!widens_once || table.bf16_widened != nullptr) {
    const panel_product product = product_of(range, a, stride, rows, next, c);
    if (range.runs > 1)
      table.bf16_runs(product);
    else
      (widens_once ? table.bf16_widened : table.bf16_direct)(product);
    return;
  }
  for (std::size_t b = 0; b < blocks; b += chunk_blocks) {
    const std::size_t count = std::min(chunk_blocks, blocks - b);
    const bool last = b + count == blocks;
    for (std::size_t p = 0; p < panels; ++p) {
      table.expand_bf16(weight.panel(first + p) + b * pair_block_bytes, count, expanded);
      fetch_chunk(p + 1 < panels ? weight.panel(first + p + 1) + b * pair_block_bytes
                  : last         ? next.first
                                 : weight.panel(first) + (b + count) * pair_block_bytes,
                  count * pair_block_bytes);
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

void multiply_f32(const kernel_table& table, const packed_matrix& weight, std::size_t step, const float* a,
                  std::size_t rows, std::size_t first, std::size_t panels, float* c) {
  const std::size_t stride = product_stride(weight.inputs());
  const std::size_t inputs = weight.inputs();
  for (std::size_t k = 0; k < inputs; k += step)
    for (std::size_t p = 0; p < panels; ++p)
      table.f32_panel(a + k, stride, rows,
                      reinterpret_cast<const float*>(weight.panel(first + p)) + k * panel_columns,
                      std::min(step, inputs - k), c + p * rows * panel_columns, panel_columns);
}

// Bytes of a panel that is unpacked as a whole.
std::size_t unpacked_panel_bytes(const packed_matrix& weight) {
  return is_quantized(weight.format()) ? int8_row_sums(weight.inputs()) * panel_columns
                                       : weight.shape().padded_inputs() / block_k * pair_block_bytes;
}

std::size_t unpacked_size(const product_regime& regime, const packed_matrix& weight) {
  return unpacks_panels(regime, weight)
             ? panels_of_part(regime, weight.shape()) * unpacked_panel_bytes(weight)
             : thread_unpacked_bytes;
}

upcoming_panels upcoming(const product_regime& regime, const panel_range& panels, const panel_range& next) {
  upcoming_panels result;
  result.bytes_ahead = regime.bytes_ahead;
  const packed_matrix* weight = next.weight;
  if (weight == nullptr || weight->shape().panel_bytes() != panels.weight->shape().panel_bytes())
    return result;
  result.first = weight->panel(next.first);
  result.count = next.count;
  result.run_stride = next.stride * weight->shape().panel_bytes();
  return result;
}

bool is_streamed(const product_regime& regime) {
  return regime.kernel == product_kernel::tiles_streamed
         || regime.kernel == product_kernel::integer_tiles_streamed;
}

} // namespace

tile_shape part_of(const tile_work& work) {
  return part_of(work.regime, *work.panels.weight, {work.rows, work.panels.count, work.panels.runs});
}

std::size_t tile_scratch_bytes(const product_regime& regime, const packed_matrix& weight, std::size_t rows,
                               const tile_shape& tile) {
  const auto bytes_of_tile = [&](std::size_t tile_rows) {
    const tile_shape part = part_of(regime, weight, {tile_rows, tile.panels, tile.runs});
    return unpacked_size(regime, weight)
           + ceil_div(part.rows, 16) * 16 * part.panels * panel_columns * sizeof(float);
  };
  // The last tile of rows may have fewer rows but longer parts: 96 rows are one, 100 are two of 64.
  const std::size_t last = tile.rows == 0 ? 0 : rows % tile.rows;
  return std::max(bytes_of_tile(tile.rows), last == 0 ? 0 : bytes_of_tile(last));
}

void begin_panels(const tile_work& work, const panel_range& panels, const panel_range& next,
                  std::byte* scratch, panel_fetch& fetch) {
  const packed_matrix& weight = *panels.weight;
  if (!is_in_parts(work.regime))
    return;
  const bool unpacks = unpacks_panels(work.regime, weight);
  if (next.weight != nullptr) {
    const packed_shape& shape = next.weight->shape();
    const std::size_t count = std::min(next.count, panels_of_part(work.regime, shape));
    if (shape.format == packed_format::bf16_coded && !unpacks) {
      // Kernels that decode panels beside products prefetch them, but not while rows are finished.
      fetch.begin(next.weight->panel(next.first), shape.panel_bytes(),
                  std::min(shape.panel_bytes(), coded_bytes_ahead), count, work.rows);
    } else {
      // Steps are products of tiles and finished rows. Products with unpacked weights make no steps
      // themselves, so a part of the next panels is not prefetched then.
      const std::size_t blocks =
          ceil_div(weight.inputs(), work.regime.kernel == product_kernel::integer_tiles ? 64 : 32);
      fetch.begin(next.weight->panel(next.first), shape.panel_bytes(), shape.panel_bytes(), count,
                  ceil_div(work.rows, 16) * panels.count * blocks + work.rows);
    }
  }
  if (!unpacks)
    return;
  for (std::size_t p = 0; p < panels.count; ++p) {
    std::byte* to = scratch + p * unpacked_panel_bytes(weight);
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
  const product_regime& regime = work.regime;
  const packed_matrix& weight = *panels.weight;
  const packed_shape& shape = weight.shape();
  const row_layout layout = layout_of(regime.kernel, kind_of(weight.format(), weight.rows()));
  auto* c = reinterpret_cast<float*>(scratch + unpacked_size(regime, weight));
  if (in_tiles(layout)) {
    const std::size_t c_stride = ceil_div(rows, 16) * 16 * panel_columns;
    tile_product product{.a = work.a + row / 16 * row_stride_of(layout, weight.inputs()),
                         .a_stride = row_stride_of(layout, weight.inputs()),
                         .rows = rows,
                         .panel = weight.panel(panels.first),
                         .panel_stride = shape.panel_bytes(),
                         .panels = panels.count,
                         .c = c,
                         .c_stride = c_stride,
                         .streamed = is_streamed(regime),
                         .next = upcoming(regime, panels, next),
                         .fetch = &fetch};
    const bool unpacked = unpacks_panels(regime, weight);
    if (unpacked) {
      product.panel = scratch;
      product.panel_stride = unpacked_panel_bytes(weight);
    }
    if (layout == row_layout::int8_tiles) {
      product.blocks = int8_row_sums(weight.inputs()) / 64;
      table.int8_tiles(product);
      for (std::size_t p = 0; p < panels.count; ++p)
        table.scale_int8_tiles(panel_of(weight, panels.first + p).scales, product.a, product.a_stride, rows,
                               weight.inputs(), c + p * c_stride);
    } else if (is_quantized(shape.format)) {
      multiply_unpacked_tiles(table, weight, product.a, rows, panels.first, panels.count, c, c_stride,
                              scratch, thread_unpacked_bytes);
    } else {
      product.blocks = shape.padded_inputs() / block_k;
      const bool coded = shape.format == packed_format::bf16_coded && !unpacked;
      (coded ? table.coded_tiles : table.bf16_tiles)(product);
    }
    return {c, c_stride};
  }
  auto* expanded = reinterpret_cast<float*>(scratch);
  const std::size_t stride = row_stride_of(layout, weight.inputs()) / sizeof(float);
  const auto* x = reinterpret_cast<const float*>(work.a) + row * stride;
  if (layout != row_layout::int8)
    std::memset(c, 0, rows * panels.runs * panels.count * panel_columns * sizeof(float));
  if (weight.format() == packed_format::f32_panel)
    multiply_f32(table, weight, regime.turn_inputs, x, rows, panels.first, panels.count, c);
  else if (is_quantized(weight.format()) && layout == row_layout::bf16_dots)
    multiply_quantized_dots(table, panels, reinterpret_cast<const bfloat16*>(x), dot_stride(weight.inputs()),
                            rows, c, scratch, thread_unpacked_bytes);
  else if (is_quantized(weight.format()))
    multiply_quantized(table, regime, panels, x, stride, rows, c, expanded, upcoming(regime, panels, next));
  else if (layout == row_layout::bf16_dots)
    multiply_dots(table, panels, reinterpret_cast<const bfloat16*>(x), rows, upcoming(regime, panels, next),
                  c);
  else if (weight.format() == packed_format::bf16_coded)
    multiply_decoded(table, panels, x, rows, c, scratch);
  else
    multiply_bf16(table, panels, regime.kernel == product_kernel::fma_widened, x, rows,
                  upcoming(regime, panels, next), c, expanded);
  return {c, rows * panel_columns};
}

} // namespace troupe::kernels::cpu
