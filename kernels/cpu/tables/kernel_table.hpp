// The table of kernels that every instruction set provides: single-threaded arithmetic on rows and panels.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/cpu/tables/quant_table.hpp"
#include "kernels/isa.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// A row block of attention: `tokens` query rows of one sequence, with the `group` heads of one KV head.
struct attention_block {
  /// Key tiles and value tiles of 16 tokens, in order of position, `num_tiles` of them. Null value tiles: the
  /// cache is latent, f32 or bf16, and values are the first `value_dim` numbers of the keys.
  const std::byte* const* key_tiles = nullptr;
  const std::byte* const* value_tiles = nullptr;
  std::size_t num_tiles = 0;
  dtype cache_type = dtype::bf16;
  /// Numbers of a key and of a value.
  std::size_t head_dim = 0;
  std::size_t value_dim = 0;
  /// Queries: row (t, g) at `query[t] + g · head_dim` elements of `query_type`.
  const std::byte* const* query = nullptr;
  dtype query_type = dtype::f32;
  /// Outputs: row (t, g) at `output[t] + g · value_dim`.
  std::byte* const* output = nullptr;
  dtype output_type = dtype::f32;
  std::size_t tokens = 0;
  std::size_t group = 0;
  /// [tokens]: keys first_key[t] ≤ k < end_key[t] are visible.
  const std::size_t* first_key = nullptr;
  const std::size_t* end_key = nullptr;
  float scale = 1.0F;
  /// [group], or null.
  const float* sinks = nullptr;
  /// `attention_scratch_bytes` of 64-byte aligned memory.
  std::byte* scratch = nullptr;
  /// For a latent cache `latent_values_bytes` of 64-byte aligned memory.
  std::byte* latent_values = nullptr;
};

/// Keys of a chunk (attention.hpp).
inline constexpr std::size_t attention_chunk = 32;

/// Chunks that a block of few rows processes at a time: scores of all, softmax of all, values of all. The
/// steps of one chunk fill the waiting time of the others.
inline constexpr std::size_t attention_span_chunks = 4;
inline constexpr std::size_t attention_span_rows = 16; // at most

/// Scratch of a block: per row (padded to 16) a query and an accumulator (both padded), 32 scores, as many
/// probabilities and four numbers; a chunk's keys and values, and its contribution to two tiles of rows; for
/// few rows the scores and two numbers of the other chunks of a span. `head_dim`: of keys.
[[gnu::always_inline]] constexpr std::size_t attention_scratch_bytes(std::size_t rows, std::size_t head_dim) {
  const std::size_t dim = (head_dim + 31) / 32 * 32;
  const std::size_t span = (attention_span_chunks - 1) * attention_span_rows * (attention_chunk + 2);
  return ((rows + 15) / 16 * 16 * (2 * dim + 64 + 16) + 64 * dim + span) * sizeof(float);
}

/// Bytes of a chunk's values of a latent cache, as two value tiles.
[[gnu::always_inline]] constexpr std::size_t latent_values_bytes(dtype type, std::size_t value_dim) {
  return bytes_of(type, attention_chunk * ((value_dim + 15) / 16 * 16));
}

/// Layouts of "rows for products", which kernels multiply with panels.
enum class row_layout : std::uint8_t {
  /// [K], unchanged.
  f32,
  /// BF16 values as FP32, K padded to 32, in blocks of 32: 16 even k, then 16 odd k.
  bf16_split,
  /// BF16, K padded to 32, in blocks of 32: k 2, 0, 6, 4, 10, 8, … 30, 28, then 3, 1, 7, 5, … 31, 29.
  bf16_dots,
  /// BF16, K padded to 32, in tiles of 16 rows × 32 k: [rows / 16][K / 32][16 rows][32 k].
  bf16_tiles,
  /// Integers with a scale (quant_table.hpp).
  int8,
  /// Integers, K padded to 64, in tiles of 16 rows × 64 k, then the 16 rows' scales:
  /// [rows / 16]([K / 64][16 rows][64 k], [16] FP32).
  int8_tiles,
  /// [K] in BF16: between two products, if a row's scale must wait for the whole row.
  bf16,
};

/// Prefetches the next panels into L2, evenly over the `steps` of the present product: 256 bytes of each
/// panel in turn. One panel after the other would reach less than half of the bandwidth, and larger pieces
/// would delay the product's loads. The last piece of a panel may end after the panel. Always inlined: units
/// of several instruction sets use it.
struct panel_fetch {
  const std::byte* at = nullptr;
  std::size_t stride = 0; // bytes between panels
  std::size_t panels = 0;
  std::size_t panel = 0; // the next one
  std::size_t left = 0;  // turns
  std::size_t turns = 0; // of all
  std::size_t steps = 0;
  std::size_t owed = 0; // turns, times `steps`

  /// Prefetches the first `bytes` of `count` panels from `first` on, `panel_bytes` apart, within `num_steps`
  /// calls of `step`.
  inline __attribute__((always_inline)) void begin(const std::byte* first, std::size_t panel_bytes,
                                                   std::size_t bytes, std::size_t count,
                                                   std::size_t num_steps) {
    at = first;
    stride = panel_bytes;
    panels = count;
    panel = 0;
    left = turns = count * ((bytes + turn_bytes - 1) / turn_bytes);
    steps = num_steps;
    owed = 0;
  }

  inline __attribute__((always_inline)) void step() {
    if (left == 0)
      return;
    for (owed += turns; owed >= steps; owed -= steps, --left) {
#pragma GCC unroll 4
      for (std::size_t line = 0; line < turn_bytes; line += 64)
        __builtin_prefetch(at + line, 0, 2);
      at += stride;
      if (++panel == panels) {
        panel = 0;
        at += static_cast<std::ptrdiff_t>(turn_bytes) - static_cast<std::ptrdiff_t>(panels * stride);
      }
    }
  }

 private:
  static constexpr std::size_t turn_bytes = 256;
};

/// A product of rows in tiles with panels: c[p][r][0 … 15] = a[r] · panel p, or += with `accumulate`.
struct tile_product {
  /// First tile of the rows; tiles of the next 16 rows follow `a_stride` bytes later. Rows of the last tile
  /// past `rows` are read and have no effect.
  const std::byte* a = nullptr;
  std::size_t a_stride = 0;
  std::size_t rows = 0;
  /// BF16 pairs, 1 KiB per block of 32 of K, or int8, as much per 64, or coded; `panel_stride` bytes between
  /// panels.
  const std::byte* panel = nullptr;
  std::size_t panel_stride = 0;
  std::size_t panels = 0;
  std::size_t blocks = 0;
  /// [panels][rows padded to 16][16], `c_stride` floats between panels; int32 for integers. Padding rows are
  /// undefined.
  float* c = nullptr;
  std::size_t c_stride = 0;
  bool accumulate = false;
  /// For up to 32 rows: panels come from memory, so that prefetching pays; false for panels in L1.
  bool streamed = true;
  /// The panels of the next product.
  upcoming_panels next{};
  /// For more rows: what to prefetch, in steps of a block, panel and 16 rows; or null.
  panel_fetch* fetch = nullptr;
};

/// A product of rows for products with packed panels: c[p][r][0 … 15] += a[r] · panel p over `blocks` blocks
/// of 32 of K.
template <class Element>
struct rows_and_panels {
  /// Address in the first block; `a_stride` elements between rows.
  const Element* a = nullptr;
  std::size_t a_stride = 0;
  std::size_t rows = 0;
  /// Address in the first block; `panel_stride` bytes between panels.
  const std::byte* panel = nullptr;
  std::size_t panel_stride = 0;
  std::size_t panels = 0;
  std::size_t blocks = 0;
  /// [panels][rows][16].
  float* c = nullptr;
  /// The panels of the next product, prefetched meanwhile.
  upcoming_panels next{};
  /// For panels of `panel_runs` runs: bytes between runs of `panels` each; c[run][p][r][0 … 15].
  std::size_t run_stride = 0;
};

/// For rows in FP32.
using panel_product = rows_and_panels<float>;

/// For rows in `row_layout::bf16_dots`.
using dot_product = rows_and_panels<bfloat16>;

/// Turns sums into output rows: out = sum + bias, or out = fma(factor, sum + bias, out) with `accumulate`.
struct finish_block {
  /// 16 to a panel: row r of panel p at `sum + p · panel_stride + r · 16`.
  const float* sum = nullptr;
  std::size_t panel_stride = 0;
  /// Bias of the first column, or null.
  const float* bias = nullptr;
  std::size_t rows = 0;
  std::size_t columns = 0;
  /// Row r goes to `out[r] + offset`; `out` null: to `first + r · stride`, bytes.
  std::byte* const* out = nullptr;
  std::size_t offset = 0;
  std::byte* first = nullptr;
  std::size_t stride = 0;
  dtype type = dtype::f32;
  bool accumulate = false;
  float factor = 1.0F;
  /// One step per row; or null.
  panel_fetch* fetch = nullptr;
};

/// Turns sums into rows of the next product: h = act(gate + gate_bias) · (up + up_bias), or act(gate + bias)
/// if `up` is null; rounded to bf16 unless the layout is f32.
struct activation_block {
  activation kind = activation::silu;
  /// Of clamped_glu.
  float limit = usual_act_limit;
  /// 16 to a panel, as in `finish_block`; likewise up's.
  const float* gate = nullptr;
  const float* gate_bias = nullptr;
  const float* up = nullptr;
  const float* up_bias = nullptr;
  std::size_t panel_stride = 0;
  std::size_t rows = 0;
  /// Columns [column, column + columns), `column` a multiple of 16; then zeros up to column `end`.
  std::size_t column = 0;
  std::size_t columns = 0;
  std::size_t end = 0;
  /// Row r begins at `out + r / 16 · tile_stride + r % 16 · row_stride`, bytes.
  std::byte* out = nullptr;
  std::size_t row_stride = 0;
  std::size_t tile_stride = 0;
  row_layout layout = row_layout::f32;
  /// One step per row; or null.
  panel_fetch* fetch = nullptr;
};

/// The kernels of one instruction set. Rows for products are FP32 unless stated otherwise: `row_layout::f32`
/// for FP32 weights, `row_layout::bf16_split` for BF16.
struct kernel_table {
  isa set = isa::portable;

  /// Converts a bf16 or f32 row of `k` elements for products; for bf16 weights rounds and pads.
  void (*pack_row_bf16)(const std::byte* row, dtype type, std::size_t k, float* out) = nullptr;
  void (*pack_row_f32)(const std::byte* row, dtype type, std::size_t k, float* out) = nullptr;

  /// Packed BF16 weights, widened in registers for each block of rows.
  void (*bf16_direct)(const panel_product& product) = nullptr;
  /// The same for up to `bf16_run_rows` rows and panels of `panel_runs` runs; or null.
  void (*bf16_runs)(const panel_product& product) = nullptr;
  std::size_t bf16_run_rows = 0;
  /// Weights widened once, by the first block of rows; null: use `expand_bf16` and `bf16_expanded`.
  void (*bf16_widened)(const panel_product& product) = nullptr;
  /// Converts a packed panel's blocks to FP32: per block 16 even rows of 16, then 16 odd rows of 16. The
  /// following memory is prefetched.
  void (*expand_bf16)(const std::byte* panel, std::size_t blocks, float* out) = nullptr;
  /// Decodes blocks [first, first + count) of a coded panel of `panel_blocks` to packed pairs, 1 KiB each.
  void (*decode_bf16)(const std::byte* panel, std::size_t panel_blocks, std::size_t first, std::size_t count,
                      std::byte* pairs) = nullptr;
  /// c[r][0 … 15] += a[r] · panel over `blocks` blocks, in the order of `bf16_direct`, with the expanded
  /// panel.
  void (*bf16_expanded)(const float* a, std::size_t a_stride, std::size_t rows, const float* panel,
                        std::size_t blocks, float* c, std::size_t c_stride) = nullptr;
  /// c[r][0 … 15] += a[r] · panel over `k` of K, [k][16] FP32 weights.
  void (*f32_panel)(const float* a, std::size_t a_stride, std::size_t rows, const float* panel, std::size_t k,
                    float* c, std::size_t c_stride) = nullptr;

  quant_table quant;

  /// Null without dot products of BF16. The same products in the same order of operations, for any number of
  /// rows or, for up to `dot_run_rows`, of panels in runs; and the conversion of rows.
  void (*bf16_dots)(const dot_product& product) = nullptr;
  void (*bf16_dot_runs)(const dot_product& product) = nullptr;
  std::size_t dot_run_rows = 0;
  /// The same for weights with coded exponents: three quarters of the bytes.
  void (*coded_dots)(const dot_product& product) = nullptr;
  void (*coded_dot_runs)(const dot_product& product) = nullptr;
  void (*pack_row_dots)(const std::byte* row, dtype type, std::size_t k, bfloat16* out) = nullptr;

  /// Null without a matrix unit. Products of BF16 rows in tiles, in the same order of operations, for any
  /// number of rows; and the conversion of rows (`out`: the row's part of its first tile).
  void (*bf16_tiles)(const tile_product& product) = nullptr;
  /// The same for weights with coded exponents, in panels of `coded_panel_bytes`, for up to 96 rows, from
  /// memory and all of K at once (`streamed` and `accumulate` are ignored).
  void (*coded_tiles)(const tile_product& product) = nullptr;
  void (*pack_row_tiles)(const std::byte* row, dtype type, std::size_t k, std::byte* out) = nullptr;
  /// The same for int8 rows: exact integer sums (int32 in `c`); a panel's results from them, in place; the
  /// conversion of rows; an int4 panel's integers as int8, [K padded to 64 / 4][16][4].
  void (*int8_tiles)(const tile_product& product) = nullptr;
  void (*scale_int8_tiles)(const float* channel_scales, const std::byte* a, std::size_t a_stride,
                           std::size_t rows, std::size_t k, float* c) = nullptr;
  void (*quantize_row_tiles)(const std::byte* row, dtype type, std::size_t k, std::byte* out,
                             float* scale) = nullptr;
  void (*unpack_int4)(const quant_panel& panel, std::size_t k, std::byte* out) = nullptr;

  void (*finish_rows)(const finish_block& block) = nullptr;
  void (*activate_rows)(const activation_block& block) = nullptr;

  /// out = act(gate) · up, or act(gate) if `up` is null; the tests' reference for `activate_rows`.
  void (*activate_row)(activation kind, float limit, const std::byte* gate, dtype gate_type,
                       const std::byte* up, dtype up_type, std::size_t count, std::byte* out,
                       dtype out_type) = nullptr;
  void (*rms_norm_row)(const std::byte* in, dtype in_type, const float* weight, float offset, float epsilon,
                       std::size_t count, std::byte* out, dtype out_type) = nullptr;
  void (*layer_norm_row)(const std::byte* in, dtype in_type, const float* weight, const float* bias,
                         float epsilon, std::size_t count, std::byte* out, dtype out_type) = nullptr;
  /// out = in · scale, converted.
  void (*scale_row)(const std::byte* in, dtype in_type, float scale, std::size_t count, std::byte* out,
                    dtype out_type) = nullptr;
  /// One head, in place.
  void (*rope_half)(float* head, const float* cos, const float* sin, std::size_t pairs) = nullptr;
  void (*rope_interleaved)(float* head, const float* cos, const float* sin, std::size_t pairs) = nullptr;
  /// out = exp(in − max), returns the sum in 16 lanes; `max` is the row's.
  float (*softmax_row)(const float* in, std::size_t count, float* out) = nullptr;
  void (*sigmoid_row)(const float* in, std::size_t count, float* out) = nullptr;
  /// residual += Σ weight[s] · row[s], null rows skipped.
  void (*combine_row)(const std::byte* const* rows, const float* weights, std::size_t slots, dtype type,
                      std::size_t count, float* residual) = nullptr;
  /// a · b in 16 lanes.
  float (*dot)(const std::byte* a, dtype a_type, const float* b, std::size_t count) = nullptr;
  /// out = fma(factor, in, out).
  void (*add_scaled_row)(const std::byte* in, dtype in_type, float factor, std::size_t count,
                         float* out) = nullptr;
  /// Largest value (−infinity for none).
  float (*max_row)(const float* in, std::size_t count) = nullptr;
  /// out = exp((in − max) · factor); returns Σ in double over 256 elements at a time, each in 16 lanes.
  /// `out` may be null.
  double (*exp_sum)(const float* in, float max, float factor, std::size_t count, float* out) = nullptr;

  void (*attention)(const attention_block& block) = nullptr;
  /// The same with query rows as columns of a product with the keys; or null.
  void (*attention_columns)(const attention_block& block) = nullptr;
};

/// The table of a supported instruction set.
/// @throws std::runtime_error  `set` is not supported here
const kernel_table& table_of(isa set);

namespace cpu {

extern const kernel_table portable_table;
extern const kernel_table avx2_table;
extern const kernel_table avx512_table;
/// AVX-512's with products on dot products of BF16. Only where `is_supported(isa::avx512_bf16)`.
const kernel_table& avx512_bf16_table();
/// AVX-512's with products and attention on AMX. Only where `is_supported(isa::amx)`.
const kernel_table& amx_table();

} // namespace cpu
} // namespace troupe::kernels
