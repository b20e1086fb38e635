// What every instruction set must provide: the arithmetic of the ops on rows and panels, without threads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/cpu/quant_table.hpp"
#include "kernels/isa.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// A row block of attention: `tokens` query rows of one sequence, the `group` heads of one KV head.
struct attention_block {
  /// Key tiles and value tiles of 16 tokens, in order of position, `num_tiles` of them.
  const std::byte* const* key_tiles = nullptr;
  const std::byte* const* value_tiles = nullptr;
  std::size_t num_tiles = 0;
  dtype cache_type = dtype::bf16;
  std::size_t head_dim = 0;
  /// Queries: row (t, g) at `query[t] + g · head_dim` elements of `query_type`.
  const std::byte* const* query = nullptr;
  dtype query_type = dtype::f32;
  /// Outputs, likewise.
  std::byte* const* output = nullptr;
  dtype output_type = dtype::f32;
  std::size_t tokens = 0;
  std::size_t group = 0;
  /// [tokens]: keys first_key[t] ≤ k < end_key[t] are seen.
  const std::size_t* first_key = nullptr;
  const std::size_t* end_key = nullptr;
  float scale = 1.0F;
  /// [group], or null.
  const float* sinks = nullptr;
  /// `attention_scratch_bytes` of 64-byte aligned memory.
  std::byte* scratch = nullptr;
};

/// Scratch of a block: per row (padded to 16) a query and an accumulator (both padded), 32 scores, as many
/// probabilities and four numbers; a chunk's values.
constexpr std::size_t attention_scratch_bytes(std::size_t rows, std::size_t head_dim) {
  const std::size_t dim = (head_dim + 31) / 32 * 32;
  return ((rows + 15) / 16 * 16 * (2 * dim + 64 + 16) + 32 * dim) * sizeof(float);
}

/// How "rows for products" lie, which kernels multiply with panels.
enum class row_layout : std::uint8_t {
  /// [K] as they are.
  f32,
  /// BF16 values as FP32, K padded to 32, in blocks of 32: 16 even k, then 16 odd k.
  bf16_split,
  /// BF16, K padded to 32, in tiles of 16 rows × 32 k: [rows / 16][K / 32][16 rows][32 k].
  bf16_tiles,
  /// Integers with a scale (quant_table.hpp).
  int8,
};

/// A product of rows in tiles with panels: c[p][r][0 … 15] = a[r] · panel p, or += with `accumulate`.
struct tile_product {
  /// First tile of the rows; tiles of the next 16 rows follow `a_stride` bytes later. What lies in the rows
  /// of the last tile past `rows` is read and changes nothing.
  const std::byte* a = nullptr;
  std::size_t a_stride = 0;
  std::size_t rows = 0;
  /// BF16 pairs, 1 KiB per block of 32 of K; `panel_stride` bytes between panels.
  const std::byte* panel = nullptr;
  std::size_t panel_stride = 0;
  std::size_t panels = 0;
  std::size_t blocks = 0;
  /// [panels][rows padded to 16][16], `c_stride` floats between panels. Padding rows get anything.
  float* c = nullptr;
  std::size_t c_stride = 0;
  bool accumulate = false;
  /// Whether panels come from memory, so that fetching ahead pays; false for panels made in L1.
  bool streamed = true;
};

/// Rows of one kernel call. Where nothing else is said, rows for products are FP32: `row_layout::f32` for
/// FP32 weights, `row_layout::bf16_split` for BF16.
struct kernel_table {
  isa set = isa::portable;

  /// Rows for products from a bf16 or f32 row of `k` elements; bf16 weights: rounds and pads.
  void (*pack_row_bf16)(const std::byte* row, dtype type, std::size_t k, float* out) = nullptr;
  void (*pack_row_f32)(const std::byte* row, dtype type, std::size_t k, float* out) = nullptr;

  /// c[r][0 … 15] += a[r] · panel for `rows` rows over `blocks` blocks of 32 of K, weights as packed.
  void (*bf16_direct)(const float* a, std::size_t a_stride, std::size_t rows, const std::byte* panel,
                      std::size_t blocks, float* c, std::size_t c_stride) = nullptr;
  /// A packed panel's blocks as FP32: per block 16 even rows of 16, then 16 odd rows of 16.
  void (*expand_bf16)(const std::byte* panel, std::size_t blocks, float* out) = nullptr;
  /// As `bf16_direct`, with the expanded panel.
  void (*bf16_expanded)(const float* a, std::size_t a_stride, std::size_t rows, const float* panel,
                        std::size_t blocks, float* c, std::size_t c_stride) = nullptr;
  /// c[r][0 … 15] += a[r] · panel over `k` of K, [k][16] FP32 weights.
  void (*f32_panel)(const float* a, std::size_t a_stride, std::size_t rows, const float* panel, std::size_t k,
                    float* c, std::size_t c_stride) = nullptr;

  quant_table quant;

  /// Only where there is a matrix unit, otherwise null: products of BF16 rows in tiles, in the same order of
  /// operations, for any number of rows, and such rows (`out`: the row's part of its first tile).
  void (*bf16_tiles)(const tile_product& product) = nullptr;
  void (*pack_row_tiles)(const std::byte* row, dtype type, std::size_t k, std::byte* out) = nullptr;

  /// out = sum + bias (or out += with `accumulate`), `count` elements; bias may be null. Sums come 16 to a
  /// panel, panels `panel_stride` floats apart.
  void (*finish_row)(const float* sum, std::size_t panel_stride, const float* bias, std::size_t count,
                     std::byte* out, dtype type, bool accumulate) = nullptr;
  /// h = act(gate + gate_bias) · (up + up_bias) for columns [column, column + count) of a row for products,
  /// `column` a multiple of 16, rounded to bf16 unless the layout is f32; then zeros up to column `end`.
  /// Gate's sums come 16 to a panel, panels `panel_stride` floats apart, and so do up's. `up` null: h =
  /// act(gate + bias). `out`: the row's begin.
  void (*activate_columns)(activation kind, const float* gate, const float* gate_bias, const float* up,
                           const float* up_bias, std::size_t panel_stride, std::size_t count,
                           std::size_t column, std::size_t end, std::byte* out, row_layout layout) = nullptr;

  void (*activate_row)(activation kind, const std::byte* gate, dtype gate_type, const std::byte* up,
                       dtype up_type, std::size_t count, std::byte* out, dtype out_type) = nullptr;
  void (*rms_norm_row)(const std::byte* in, dtype in_type, const float* weight, float offset, float epsilon,
                       std::size_t count, std::byte* out, dtype out_type) = nullptr;
  void (*layer_norm_row)(const std::byte* in, dtype in_type, const float* weight, const float* bias,
                         float epsilon, std::size_t count, std::byte* out, dtype out_type) = nullptr;
  /// out += in.
  void (*add_row)(const std::byte* in, dtype in_type, std::size_t count, float* out) = nullptr;
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
};

/// The table of a supported instruction set.
/// @errors std::runtime_error when `set` is not supported here
const kernel_table& table_of(isa set);

namespace cpu {

extern const kernel_table portable_table;
extern const kernel_table avx2_table;
extern const kernel_table avx512_table;
/// AVX-512's with products and attention on AMX. Only where `is_supported(isa::amx)`.
const kernel_table& amx_table();

} // namespace cpu
} // namespace troupe::kernels
