// Common host code of `few_rows` and `tiled_rows`; only for these two.
#pragma once

#include <string>
#include <type_traits>

#include "kernels/cuda/few_rows.hpp"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

/// Checks the arguments of both ops.
/// @throws kernel_error naming `op`
inline void check_row_products(const char* op, const few_rows_args& args, std::size_t most_rows) {
  const auto require = [&](bool holds, const char* otherwise) {
    if (!holds)
      throw kernel_error(std::string("cuda ") + op + ": " + otherwise);
  };
  require(args.shape.inputs % lane_run == 0 && args.input_stride % lane_run == 0,
          "inputs are not a multiple of 8");
  require(args.most_rows <= most_rows, "an item has more rows than one item may have");
  require(args.output_type == dtype::bf16 || args.output_type == dtype::f32, "output is not f32 or bf16");
  require(args.result != few_rows_result::add || args.output_type == dtype::f32, "only f32 outputs add up");
}

/// Calls start(format, matrices of an item), both as compile-time constants for kernels.
template <class Start>
void with_constants_of(const few_rows_args& args, const Start& start) {
  const auto with_matrices = [&](auto format) {
    if (args.result == few_rows_result::activate_gated)
      start(format, std::integral_constant<unsigned, 2>{});
    else
      start(format, std::integral_constant<unsigned, 1>{});
  };
  switch (args.shape.format) {
  case weight_format::bf16:
    with_matrices(std::integral_constant<weight_format, weight_format::bf16>{});
    break;
  case weight_format::int8:
    with_matrices(std::integral_constant<weight_format, weight_format::int8>{});
    break;
  case weight_format::int4:
    with_matrices(std::integral_constant<weight_format, weight_format::int4>{});
    break;
  }
}

} // namespace troupe::kernels::cuda
