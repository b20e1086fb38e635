// Products with 1 to 32 rows, which decoding is made of: weights are streamed once, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/activation.hpp"
#include "kernels/bfloat16.hpp"
#include "kernels/cuda/device.hpp"
#include "kernels/cuda/weights.hpp"
#include "kernels/tensor.hpp"

namespace troupe::kernels::cuda {

/// Rows that one pass over weights takes at most.
inline constexpr std::size_t most_few_rows = 32;

/// Shares that a sum over inputs is made of: chunk c belongs to share c mod 8. Part of the definition of the
/// result.
inline constexpr unsigned input_shares = 8;

/// Rows that meet one matrix.
struct row_item {
  /// Index into `few_rows_args::matrices`, or with gated products into pairs of them.
  std::uint32_t matrix = 0;
  std::uint32_t first_row = 0;
  /// Up to 32 (`tiled_rows`: 128); 0 is allowed.
  std::uint32_t rows = 0;
};

enum class few_rows_result : std::uint8_t {
  replace,        ///< y = x Wᵀ + bias
  add,            ///< y = y + (x Wᵀ + bias), f32 only: the residual stream
  activate,       ///< y = act(x Wᵀ + bias)
  activate_gated, ///< y = act(x Gᵀ + bias) · (x Uᵀ + bias): two matrices an item, gate before up
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
  /// No item has more rows: chooses the kernel.
  std::size_t most_rows = most_few_rows;
  /// [rows, inputs], bf16, `input_stride` elements apart (a multiple of 8), 16-byte aligned.
  const bfloat16* input = nullptr;
  std::size_t input_stride = 0;
  /// Row r of an item is row `input_rows[first_row + r]` of the input; null: row first_row + r.
  const std::uint32_t* input_rows = nullptr;
  /// Rows of the input, for checks.
  std::size_t num_input_rows = 0;
  /// [rows, outputs] at row first_row + r, f32 or bf16 (rounded once).
  void* output = nullptr;
  dtype output_type = dtype::bf16;
  std::size_t output_stride = 0;
  std::size_t num_output_rows = 0;
  few_rows_result result = few_rows_result::replace;
  activation act = activation::silu;
};

/// Products of each item's rows with its matrix, in BF16 with FP32 sums.
///
/// A row's bits depend on the row and the matrix alone: each of eight warps adds the chunks of its share of
/// the inputs in order, and the shares' sums are added in order. So any cut of rows into items gives the same
/// bits, which `tiled_rows` gives, too.
/// @source DeepSpeed-Inference § III; "Who Says Elephants Can't Run" § 3.4
/// @errors kernel_error for sizes that it does not take
void few_rows(const stream& on, const few_rows_args& args);

} // namespace troupe::kernels::cuda
