// Products with 1 to 32 rows, as in decoding: weights are streamed once, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/cuda/annotations.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/weights.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Most rows of one pass over weights.
inline constexpr std::size_t most_few_rows = 32;

/// Number of shares of a sum over inputs: chunk c belongs to share c mod 8. Part of the definition of the
/// result.
inline constexpr unsigned input_shares = 8;

/// Rows that are multiplied with one matrix.
struct row_item {
  /// Index into `few_rows_args::matrices`; for gated products, into pairs of them.
  std::uint32_t matrix = 0;
  std::uint32_t first_row = 0;
  /// Up to 32 (`tiled_rows`: 128); 0 is allowed.
  std::uint32_t rows = 0;
};

enum class few_rows_result : std::uint8_t {
  replace,        ///< y = x Wᵀ + bias
  add,            ///< y = fma(factor, x Wᵀ + bias, y), f32 only: the residual stream
  activate,       ///< y = act(x Wᵀ + bias)
  activate_gated, ///< y = act(x Gᵀ + bias) · (x Uᵀ + bias): two matrices an item, gate before up; or
                  ///< clamped_glu's
};

/// Pointers are to device memory.
struct few_rows_args {
  /// Of every matrix in `matrices`.
  weight_shape shape;
  const weight_matrix* matrices = nullptr;
  std::size_t num_matrices = 0;
  /// [num_items]; rows of different items must not write to one another's outputs.
  const row_item* items = nullptr;
  std::size_t num_items = 0;
  /// Most rows of an item; selects the kernel.
  std::size_t most_rows = most_few_rows;
  /// Row r of an item is row first_row + r · row_step, here called its row.
  std::size_t row_step = 1;
  /// [rows, inputs], bf16, `input_stride` elements apart (a multiple of 8), 16-byte aligned.
  const bfloat16* input = nullptr;
  std::size_t input_stride = 0;
  /// An item's row is row `input_rows[row]` of the input; null: the row of that number.
  const std::uint32_t* input_rows = nullptr;
  /// Rows of the input, for checks.
  std::size_t num_input_rows = 0;
  /// [rows, outputs], f32 or bf16 (rounded once).
  void* output = nullptr;
  dtype output_type = dtype::bf16;
  std::size_t output_stride = 0;
  std::size_t num_output_rows = 0;
  few_rows_result result = few_rows_result::replace;
  activation act = activation::silu;
  float act_limit = usual_act_limit;
  /// Of `add` (Granite's `residual_multiplier`).
  float factor = 1.0F;
  /// `replace`: of the results (logits by Granite's `logits_scaling`).
  float divisor = 1.0F;
};

/// Products of each item's rows with its matrix, in BF16 with FP32 sums.
///
/// A row's bits depend on the row and the matrix alone: each of eight warps adds the chunks of its share of
/// the inputs in order, and the shares' sums are added in order. So any division of rows into items gives the
/// same bits, and so does `tiled_rows`.
/// @source DeepSpeed-Inference § III; "Who Says Elephants Can't Run" § 3.4
/// @throws kernel_error  unsupported sizes
void few_rows(const stream& on, const few_rows_args& args);

/// The arguments' row of an item's row r.
TROUPE_BOTH constexpr std::size_t row_of(const few_rows_args& args, const row_item& item, std::size_t r) {
  return item.first_row + r * args.row_step;
}

} // namespace troupe::kernels::cuda
