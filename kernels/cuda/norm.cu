#include "kernels/cuda/norm.hpp"

#include <cmath>

#include "kernels/cuda/numbers.cuh"
#include "kernels/cuda/warp.cuh"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned norm_threads = 256;

__global__ void __launch_bounds__(norm_threads) rms_norm_kernel(norm_args args) {
  __shared__ float scratch[warp_lanes];
  const void* in = row_at(args.input, args.input_type, args.input_stride, blockIdx.x);
  void* out = row_at(args.output, args.output_type, args.output_stride, blockIdx.x);
  float squares = 0.0F;
  for (std::size_t i = threadIdx.x; i < args.cols; i += norm_threads) {
    const float x = number_at(in, args.input_type, i);
    squares = fmaf(x, x, squares);
  }
  const float mean = block_sum(squares, scratch) / static_cast<float>(args.cols);
  const float r = 1.0F / sqrtf(mean + args.epsilon);
  for (std::size_t i = threadIdx.x; i < args.cols; i += norm_threads)
    set_number(out, args.output_type, i,
               number_at(in, args.input_type, i) * r * (args.weight[i] + args.weight_offset));
}

__global__ void __launch_bounds__(norm_threads) layer_norm_kernel(norm_args args) {
  __shared__ float scratch[2][warp_lanes];
  const void* in = row_at(args.input, args.input_type, args.input_stride, blockIdx.x);
  void* out = row_at(args.output, args.output_type, args.output_stride, blockIdx.x);
  float sum = 0.0F;
  for (std::size_t i = threadIdx.x; i < args.cols; i += norm_threads)
    sum += number_at(in, args.input_type, i);
  const float mean = block_sum(sum, scratch[0]) / static_cast<float>(args.cols);
  float squares = 0.0F;
  for (std::size_t i = threadIdx.x; i < args.cols; i += norm_threads) {
    const float d = number_at(in, args.input_type, i) - mean;
    squares = fmaf(d, d, squares);
  }
  const float r = 1.0F / sqrtf(block_sum(squares, scratch[1]) / static_cast<float>(args.cols) + args.epsilon);
  for (std::size_t i = threadIdx.x; i < args.cols; i += norm_threads) {
    const float normal = (number_at(in, args.input_type, i) - mean) * r;
    set_number(out, args.output_type, i,
               fmaf(normal, args.weight[i], args.bias != nullptr ? args.bias[i] : 0.0F));
  }
}

} // namespace

void rms_norm(const stream& on, const norm_args& args) {
  launch("rms_norm", on, {.blocks_x = args.rows, .threads = norm_threads}, rms_norm_kernel, args);
}

void layer_norm(const stream& on, const norm_args& args) {
  launch("layer_norm", on, {.blocks_x = args.rows, .threads = norm_threads}, layer_norm_kernel, args);
}

} // namespace troupe::kernels::cuda
