#include "kernels/cuda/norm.hpp"

#include <cmath>
#include <type_traits>

#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned norm_threads = 256;

// A thread's elements of a piece of `Kept` · 256 columns: number k is column piece + 256 k + the thread's
// index. Rows may be their own output, so without this copy each load would wait for the store before it.
template <unsigned Kept>
struct row_piece {
  static constexpr std::size_t columns = std::size_t{Kept} * norm_threads;

  float value[Kept];

  // Past the row's end its last element is repeated.
  __device__ void load(const void* row, dtype type, std::size_t piece, std::size_t cols) {
    if (type == dtype::f32)
      fill(piece, cols, [&](std::size_t i) { return static_cast<const float*>(row)[i]; });
    else
      fill(piece, cols, [&](std::size_t i) { return to_float(static_cast<const bfloat16*>(row)[i]); });
  }

  // Calls take(column, number of the element), in order of columns.
  template <class Take>
  __device__ void for_each(std::size_t piece, std::size_t cols, const Take& take) const {
    TROUPE_UNROLL
    for (unsigned k = 0; k < Kept; ++k) {
      const std::size_t i = piece + std::size_t{k} * norm_threads + threadIdx.x;
      if (i < cols)
        take(i, k);
    }
  }

 private:
  template <class At>
  __device__ void fill(std::size_t piece, std::size_t cols, const At& at) {
    TROUPE_UNROLL
    for (unsigned k = 0; k < Kept; ++k) {
      const std::size_t i = piece + std::size_t{k} * norm_threads + threadIdx.x;
      value[k] = at(i < cols ? i : cols - 1);
    }
  }
};

template <unsigned Kept>
__global__ void __launch_bounds__(norm_threads) rms_norm_kernel(norm_args args) {
  __shared__ float scratch[warp_lanes];
  constexpr std::size_t columns = row_piece<Kept>::columns;
  TROUPE_DEVICE_CHECK(blockIdx.x < args.rows && args.cols <= args.input_stride
                      && args.cols <= args.output_stride);
  const void* in = row_at(args.input, args.input_type, args.input_stride, blockIdx.x);
  void* out = row_at(args.output, args.output_type, args.output_stride, blockIdx.x);
  row_piece<Kept> weight;
  row_piece<Kept> x;
  weight.load(args.weight, dtype::f32, 0, args.cols);
  float squares = 0.0F;
  for (std::size_t piece = 0; piece < args.cols; piece += columns) {
    x.load(in, args.input_type, piece, args.cols);
    x.for_each(piece, args.cols,
               [&](std::size_t, unsigned k) { squares = fmaf(x.value[k], x.value[k], squares); });
  }
  const float mean = block_sum(squares, scratch) / static_cast<float>(args.cols);
  const float r = 1.0F / sqrtf(mean + args.epsilon);
  for (std::size_t piece = 0; piece < args.cols; piece += columns) {
    if (args.cols > columns) { // otherwise both are loaded already
      weight.load(args.weight, dtype::f32, piece, args.cols);
      x.load(in, args.input_type, piece, args.cols);
    }
    x.for_each(piece, args.cols, [&](std::size_t i, unsigned k) {
      set_number(out, args.output_type, i, x.value[k] * r * (weight.value[k] + args.weight_offset));
    });
  }
}

template <unsigned Kept>
__global__ void __launch_bounds__(norm_threads) layer_norm_kernel(norm_args args) {
  __shared__ float scratch[2][warp_lanes];
  constexpr std::size_t columns = row_piece<Kept>::columns;
  TROUPE_DEVICE_CHECK(blockIdx.x < args.rows && args.cols <= args.input_stride
                      && args.cols <= args.output_stride);
  const void* in = row_at(args.input, args.input_type, args.input_stride, blockIdx.x);
  void* out = row_at(args.output, args.output_type, args.output_stride, blockIdx.x);
  const bool is_one_piece = args.cols <= columns;
  row_piece<Kept> x;
  float sum = 0.0F;
  for (std::size_t piece = 0; piece < args.cols; piece += columns) {
    x.load(in, args.input_type, piece, args.cols);
    x.for_each(piece, args.cols, [&](std::size_t, unsigned k) { sum += x.value[k]; });
  }
  const float mean = block_sum(sum, scratch[0]) / static_cast<float>(args.cols);
  float squares = 0.0F;
  for (std::size_t piece = 0; piece < args.cols; piece += columns) {
    if (!is_one_piece)
      x.load(in, args.input_type, piece, args.cols);
    x.for_each(piece, args.cols, [&](std::size_t, unsigned k) {
      const float d = x.value[k] - mean;
      squares = fmaf(d, d, squares);
    });
  }
  const float r = 1.0F / sqrtf(block_sum(squares, scratch[1]) / static_cast<float>(args.cols) + args.epsilon);
  for (std::size_t piece = 0; piece < args.cols; piece += columns) {
    row_piece<Kept> weight;
    row_piece<Kept> bias{};
    weight.load(args.weight, dtype::f32, piece, args.cols);
    if (args.bias != nullptr)
      bias.load(args.bias, dtype::f32, piece, args.cols);
    if (!is_one_piece)
      x.load(in, args.input_type, piece, args.cols);
    x.for_each(piece, args.cols, [&](std::size_t i, unsigned k) {
      const float normal = (x.value[k] - mean) * r;
      set_number(out, args.output_type, i, fmaf(normal, weight.value[k], bias.value[k]));
    });
  }
}

// Pieces that hold a row of up to 8192 columns; longer rows are loaded again for each pass.
template <class Start>
void with_pieces_for(std::size_t cols, const Start& start) {
  if (cols <= row_piece<8>::columns)
    start(std::integral_constant<unsigned, 8>{});
  else if (cols <= row_piece<16>::columns)
    start(std::integral_constant<unsigned, 16>{});
  else
    start(std::integral_constant<unsigned, 32>{});
}

} // namespace

void rms_norm(const stream& on, const norm_args& args) {
  if (args.cols == 0)
    return;
  with_pieces_for(args.cols, [&](auto kept) {
    launch("rms_norm", on, {.blocks_x = args.rows, .threads = norm_threads}, rms_norm_kernel<kept()>, args);
  });
}

void layer_norm(const stream& on, const norm_args& args) {
  if (args.cols == 0)
    return;
  with_pieces_for(args.cols, [&](auto kept) {
    launch("layer_norm", on, {.blocks_x = args.rows, .threads = norm_threads}, layer_norm_kernel<kept()>,
           args);
  });
}

} // namespace troupe::kernels::cuda
