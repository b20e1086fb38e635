#include "kernels/cuda/finish_rows.hpp"

#include "kernels/cuda/activations.hpp"
#include "kernels/cuda/numbers.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned finish_threads = 256;

constexpr std::uint32_t no_matrix = 0xffffffffU;

// The matrix of a row: of the last item that begins at or before it, if that contains the row.
__device__ std::uint32_t matrix_of(const finish_rows_args& args, std::size_t row) {
  if (args.items == nullptr)
    return 0;
  std::size_t low = 0;
  std::size_t high = args.num_items;
  while (high - low > 1) {
    const std::size_t middle = (low + high) / 2;
    if (args.items[middle].first_row <= row)
      low = middle;
    else
      high = middle;
  }
  const row_item item = args.items[low];
  return row >= item.first_row && row - item.first_row < item.rows ? item.matrix : no_matrix;
}

__device__ inline float finished(const weight_matrix& matrix, float sum, std::size_t column) {
  if (matrix.channel_scales != nullptr)
    sum *= matrix.channel_scales[column];
  if (matrix.bias != nullptr)
    sum += matrix.bias[column];
  return sum;
}

__global__ void __launch_bounds__(finish_threads) finish_rows_kernel(finish_rows_args args) {
  const std::size_t row = blockIdx.x;
  const std::size_t column = std::size_t{blockIdx.y} * finish_threads + threadIdx.x;
  if (column >= args.cols)
    return;
  const bool gated = args.result == few_rows_result::activate_gated;
  const std::uint32_t index = matrix_of(args, row);
  if (index == no_matrix)
    return;
  TROUPE_DEVICE_CHECK(row < args.rows && (index + 1) * (gated ? 2U : 1U) <= args.num_matrices);
  const weight_matrix* matrix = args.matrices + std::size_t{index} * (gated ? 2U : 1U);
  const std::size_t at = row * args.cols + column;
  float y = finished(matrix[0], number_at(args.sums, args.sums_type, at), column);
  if (args.result == few_rows_result::activate || gated)
    y = activated(args.act, y, args.act_limit);
  if (gated)
    y *= gated_up(args.act, finished(matrix[1], number_at(args.up_sums, args.sums_type, at), column),
                  args.act_limit);
  if (args.result == few_rows_result::add)
    y += number_at(args.output, args.output_type, at);
  set_number(args.output, args.output_type, at, y);
}

} // namespace

void finish_rows(const stream& on, const finish_rows_args& args) {
  launch("finish_rows", on,
         {.blocks_x = args.rows,
          .blocks_y = (args.cols + finish_threads - 1) / finish_threads,
          .threads = finish_threads},
         finish_rows_kernel, args);
}

} // namespace troupe::kernels::cuda
