// Weights in the layout that the kernels read: packed once, then read only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/buffer.hpp"
#include "kernels/int4_panel.hpp"
#include "kernels/isa.hpp"
#include "kernels/row_quant.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels {

/// Columns of a panel.
inline constexpr std::size_t panel_columns = 16;

/// Inputs (K) of a block: the unit for which the order of a BF16 product is defined (gemm.hpp), and 1 KiB of
/// a panel in BF16.
inline constexpr std::size_t block_k = 32;
inline constexpr std::size_t pair_block_bytes = block_k * panel_columns * 2;

/// Layouts of a packed matrix. Values go into files: never renumber.
///
/// A panel holds 16 output columns over all of K; panels follow one another, each 64-byte aligned. Missing
/// columns and the end of K are zeros.
enum class packed_format : std::uint8_t {
  /// FP32: [K padded to 1][16 columns]. 64 bytes per k.
  f32_panel = 0,
  /// BF16 in AMX's pair layout: [K padded to 32, / 2][16 columns][k even, k odd]. 1 KiB per 32 of K.
  bf16_pair = 1,
  /// Quantized (quantize.hpp), K padded to 64, every panel followed by its 16 FP32 channel scales. int8: [K /
  /// 4][16 columns][4 k], the operand of integer dot products and AMX's int8 tiles. 512 bytes per 32 of K.
  int8_channel = 2,
  /// int4: [K / 8][16 columns][4 bytes], byte i: k = i in the low, k = 4 + i in the high half, both q + 8.
  /// 256 bytes per 32 of K.
  int4_channel = 3,
  /// int4 as above, with group scales between the weights (int4_panel.hpp), a byte each per 32 or 64 of K.
  int4_group32 = 4,
  int4_group64 = 5,
  /// BF16 with coded exponents, the same values in three quarters of the bytes (coded_bf16.hpp).
  bf16_coded = 6,
};

/// Last value of `packed_format` that a file may name.
inline constexpr packed_format last_packed_format = packed_format::bf16_coded;

/// "f32-panel", "bf16-pair", "int8-channel", "int4-channel", "int4-group32", "int4-group64" or "bf16-coded".
const char* name_of(packed_format format);

/// Whether weights of `format` are integers with scales.
constexpr bool is_quantized(packed_format format) {
  return format >= packed_format::int8_channel && format <= packed_format::int4_group64;
}

/// Largest K for which 32-bit sums of int8 rows times weights of `format` cannot overflow; unlimited if rows
/// are not quantized.
constexpr std::size_t most_inputs_of_int8_rows(packed_format format) {
  constexpr std::size_t largest_sum = 0x7fff'ffff;
  constexpr std::size_t largest_row = 127;
  switch (format) {
  case packed_format::int8_channel:
    return largest_sum / (largest_row * 127);
  case packed_format::int4_group32:
  case packed_format::int4_group64:
    return largest_sum / (largest_row * 8 * 15);
  case packed_format::int4_channel:
    return largest_sum / (largest_row * 8);
  default:
    return static_cast<std::size_t>(-1);
  }
}

/// Shape and layout of packed weights: all that a file must keep besides the bytes.
struct packed_shape {
  packed_format format = packed_format::bf16_pair;
  /// Output features N of one matrix.
  std::size_t outputs = 0;
  /// Input features K.
  std::size_t inputs = 0;
  /// 2: gate and up side by side (panel 2i is gate's panel i, panel 2i + 1 is up's); otherwise 1.
  std::size_t interleave = 1;

  friend bool operator==(const packed_shape&, const packed_shape&) = default;

  /// K padded as the kernels need.
  std::size_t padded_inputs() const;
  /// Panels of all interleaved matrices.
  std::size_t panels() const;
  std::size_t panel_bytes() const;
  /// Number of K that share a group scale; 0: no group scales.
  std::size_t group() const;
  /// Bytes of a panel's weights with group scales, without channel scales.
  std::size_t panel_weight_bytes() const;

  /// Layout of an int4 panel.
  int4_layout int4() const { return {group() / 32}; }

  /// Place of a quantized panel's 16 channel scales.
  std::size_t panel_scales_offset() const { return panel_bytes() - panel_columns * sizeof(float); }

  /// Bytes of the whole matrix: the size of a view.
  std::size_t bytes() const;
};

/// The unquantized format for activations of type `activation` (f32 or bf16).
packed_format format_for(dtype activation);

/// [N out, K in] weights in panels. Owns them, or refers to memory owned elsewhere (a mapped file).
/// Move-only.
class packed_matrix {
 public:
  packed_matrix() = default;

  /// Packs row-major [N, K] weights (Hugging Face's `nn.Linear.weight`) of f32, bf16 or f16. Converting f32
  /// or f16 to BF16 rounds to nearest even; for quantizing see quantize.hpp; for coded weights see `code`.
  /// @param set  its kernels search for scales; all sets find the same
  /// @throws kernel_error  the type cannot be packed into `format`, or weights to quantize are not finite
  static packed_matrix pack(packed_format format, const_tensor_view weight, isa set = isa::portable);

  /// Packs gate and up, both [N, K], with alternating panels, as `expert_ffn` reads them for gated experts.
  /// @throws kernel_error  their shapes differ, or the type cannot be packed
  static packed_matrix pack_gate_up(packed_format format, const_tensor_view gate, const_tensor_view up,
                                    isa set = isa::portable);

  /// Converts `bf16_pair` weights to `bf16_coded`; empty if their exponents are too diverse.
  static std::optional<packed_matrix> code(const packed_matrix& plain);

  /// Packs into the caller's memory of `shape.bytes()`; `parts` holds `shape.interleave` weights [N, K].
  /// @throws kernel_error as above, or if a shape or size does not fit
  static void pack_into(const packed_shape& shape, std::span<const const_tensor_view> parts,
                        std::span<std::byte> out, isa set = isa::portable);

  /// Refers to packed bytes owned elsewhere, 64-byte aligned, which must outlive the matrix.
  /// @throws kernel_error  size or alignment is wrong
  static packed_matrix view(const packed_shape& shape, std::span<const std::byte> bytes);

  /// Copies packed bytes.
  /// @throws kernel_error as `view`
  static packed_matrix copy(const packed_shape& shape, std::span<const std::byte> bytes);

  /// Takes ownership of packed bytes.
  /// @throws kernel_error as `view`
  static packed_matrix own(const packed_shape& shape, buffer bytes);

  const packed_shape& shape() const { return shape_; }

  std::size_t outputs() const { return shape_.outputs; }

  std::size_t inputs() const { return shape_.inputs; }

  packed_format format() const { return shape_.format; }

  bool empty() const { return data_ == nullptr; }

  std::span<const std::byte> bytes() const { return {data_, data_ == nullptr ? 0 : shape_.bytes()}; }

  const std::byte* panel(std::size_t index) const { return data_ + shape_.panel_bytes() * index; }

  /// How rows are converted for products with these weights: a choice at load, not part of the bytes.
  row_quant rows() const { return rows_; }

  /// Ignored by plain weights.
  void set_rows(row_quant rows) { rows_ = is_quantized(shape_.format) ? rows : row_quant::none; }

  /// Weight row `output` of part `part` (< interleave) as FP32 in `out` [K]: exact for f32 and bf16; for
  /// quantized formats the integer times its scale, rounded once.
  void unpack_row(std::size_t output, std::span<float> out, std::size_t part = 0) const;

 private:
  packed_shape shape_;
  buffer storage_;
  const std::byte* data_ = nullptr;
  row_quant rows_ = row_quant::none;
};

} // namespace troupe::kernels
