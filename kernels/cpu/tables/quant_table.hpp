// The kernels for quantized weights that every instruction set provides: part of its kernel table.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/packed_matrix.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// The parts of one panel of quantized weights, and the distance of the next one.
struct quant_panel {
  packed_format format = packed_format::int8_channel;
  const std::byte* weights = nullptr;
  /// For int4.
  int4_layout layout{};
  /// [16]
  const float* scales = nullptr;
  /// Bytes between panels.
  std::size_t stride = 0;

  [[gnu::always_inline]] bool has_groups() const { return layout.has_groups(); }

  /// Block `b` of 32 of K of int4, and its 16 group scales.
  [[gnu::always_inline]] const std::byte* int4_block(std::size_t b) const {
    return weights + layout.block_offset(b);
  }

  [[gnu::always_inline]] const std::byte* group_scales_of(std::size_t b) const {
    return weights + layout.scales_offset(b);
  }

  /// Bytes of weights and group scales.
  [[gnu::always_inline]] std::size_t weight_bytes() const {
    return static_cast<std::size_t>(reinterpret_cast<const std::byte*>(scales) - weights);
  }

  /// The panel `count` panels further on.
  [[gnu::always_inline]] quant_panel next(std::size_t count) const { return on(count * stride); }

  /// The panel `bytes` further on.
  [[gnu::always_inline]] quant_panel on(std::size_t bytes) const {
    return {format, weights + bytes, layout, scales + bytes / sizeof(float), stride};
  }
};

/// Runs of panels that few rows read side by side.
inline constexpr std::size_t panel_runs = 4;

/// Panels of the thread's next product, at the same distance: prefetched meanwhile.
struct upcoming_panels {
  const std::byte* first = nullptr;
  std::size_t count = 0;
  /// Bytes between their runs; 0: a single run.
  std::size_t run_stride = 0;
  /// Prefetch distance of all streams of panels together.
  std::size_t bytes_ahead = 8192;
};

/// c[p][r][0 … 15] = (float(Σ q_x · q_w) · row scale) · channel scale, all of K, for `panels` panels;
/// `a_stride` in bytes.
using integer_product = void(const std::byte* a, std::size_t a_stride, std::size_t rows,
                             const quant_panel& first, std::size_t panels, const upcoming_panels& next,
                             std::size_t k, float* c);

/// Largest group scale: −8 · 15 still fits a byte, so an unpacked group-wise int4 matrix is an int8 matrix,
/// and integer sums over all of K stay exact.
inline constexpr int max_group_scale = 15;

/// A group's scale g (0: its weights become zero) and its error Σ (w − q · g · scale)².
struct int4_group_scale {
  int scale = 0;
  float error = 0.0F;
};

/// Layout of a row of int8 values ("row for integer products") with K padded to 64, for each instruction set:
///
///     at               type    what
///     0                int8    the K values
///     int8_row_sums    int32   for each 32 of K: −8 Σ x, the correction for int4 weights stored as q + 8
///                              (AVX2 keeps only the low 16 bits)
///     int8_row_scale   f32     the row's scale
///     the same + 4     int32   Σ x of the row
///
/// For AVX2 in addition (`gemm/int8/narrow_rows_avx2.hpp`):
///
///     int8_row_narrow  int8    the K values, some fours of K cut to ±64
///     int8_row_wide    uint32  the number of such fours
///     the same + 4     uint32, 4 × int8   of each: place of its weights in a panel (bytes), cut-off parts
[[gnu::always_inline]] constexpr std::size_t int8_row_sums(std::size_t k) {
  return (k + 63) / 64 * 64;
}

[[gnu::always_inline]] constexpr std::size_t int8_row_scale(std::size_t k) {
  return int8_row_sums(k) + int8_row_sums(k) / 32 * sizeof(std::int32_t);
}

[[gnu::always_inline]] constexpr std::size_t int8_row_narrow(std::size_t k) {
  return (int8_row_scale(k) + 2 * sizeof(float) + 63) / 64 * 64;
}

[[gnu::always_inline]] constexpr std::size_t int8_row_wide(std::size_t k) {
  return int8_row_narrow(k) + int8_row_sums(k);
}

/// Bytes between such rows: an odd number of cache lines, so that a tile's rows do not share a set of the L1
/// cache.
[[gnu::always_inline]] constexpr std::size_t int8_row_stride(std::size_t k) {
  const std::size_t bytes = int8_row_wide(k) + sizeof(std::uint32_t) + int8_row_sums(k) / 4 * 8;
  return (bytes + 63) / 64 / 2 * 128 + 64;
}

/// Weights enter products as integers: q · 2²⁴ for int8 (a byte in the top of a 32-bit lane, which saves sign
/// extension), q · g for int4. The channel's scale, and 2⁻²⁴, are applied to the sum. All of these are exact
/// in BF16 and in FP32.
struct quant_table {
  /// Converts blocks of 32 of K to FP32, in the layout of `expand_bf16`: 16 even rows of 16, then 16 odd
  /// rows.
  void (*expand)(const quant_panel& panel, std::size_t first_block, std::size_t blocks, float* out) = nullptr;
  /// The same as BF16 pairs, the operand of matrix units: 1 KiB a block.
  void (*pairs)(const quant_panel& panel, std::size_t first_block, std::size_t blocks,
                std::byte* out) = nullptr;
  /// c[r][0 … 15] += a[r] · integers, in the order of `bf16_direct`, unpacked in registers.
  void (*direct)(const float* a, std::size_t a_stride, std::size_t rows, const quant_panel& panel,
                 std::size_t first_block, std::size_t blocks, float* c, std::size_t c_stride) = nullptr;
  /// c[r][0 … 15] *= the channel's scale: turns sums from `expand` and `direct` into results.
  void (*scale)(const quant_panel& panel, std::size_t rows, float* c) = nullptr;

  /// Converts a bf16 or f32 row for integer products: scale = max |x| / 127, q rounded to nearest even. A row
  /// with a NaN or an infinity gets the scale NaN.
  void (*quantize_row)(const std::byte* row, dtype type, std::size_t k, std::byte* out) = nullptr;
  /// For any number of rows.
  integer_product* integer = nullptr;
  /// The others are null without dot products of bytes. Panels in streams, each prefetched; side by side,
  /// prefetched in the order of addresses; int4 converted to bytes once for all rows.
  integer_product* integer_streams = nullptr;
  integer_product* integer_groups = nullptr;
  integer_product* integer_unpacked = nullptr;
  /// One panel after the other, for up to N rows of int8 and of int4.
  integer_product* integer_one_stream = nullptr;
  std::size_t int8_stream_rows = 0;
  std::size_t int4_stream_rows = 0;
  /// On a matrix unit, panels in streams; or null.
  integer_product* integer_row_tiles = nullptr;

  /// For up to N rows and panels of `panel_runs` runs that begin `run_stride` bytes apart, `panels` of each:
  /// c[run][p][r][0 … 15]; or null.
  void (*integer_runs)(const std::byte* a, std::size_t a_stride, std::size_t rows, const quant_panel& first,
                       std::size_t panels, std::size_t run_stride, const upcoming_panels& next, std::size_t k,
                       float* c) = nullptr;
  std::size_t int8_run_rows = 0;
  std::size_t int4_run_rows = 0;

  /// For quantizing weights: Σ (w − q · step)² over `count` weights, a multiple of 16, with the best q in −8
  /// … 7; and the best g of a group of `count`, 32 or 64, whose largest |w| is `max`: among the integers of
  /// both signs around max / (8 scale), the first among equals.
  float (*int4_error)(const float* weights, std::size_t count, float step) = nullptr;
  int4_group_scale (*int4_scale)(const float* weights, std::size_t count, float max, float scale) = nullptr;
};

} // namespace troupe::kernels
