#include "kernels/cuda/dequantize_rows.hpp"

#include "kernels/cuda/dequantize.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/warp.cuh"
#include "kernels/error.hpp"

namespace troupe::kernels::cuda {

namespace {

constexpr unsigned dequantize_warps = 8;

// Writes words of four adjacent inputs of one channel to their place in a row.
__device__ inline void store_quad(const dequantize_args& args, bfloat16* matrix, std::size_t output,
                                  std::size_t input, std::uint32_t first, std::uint32_t second) {
  if (output < args.shape.outputs && input < args.shape.inputs)
    *reinterpret_cast<bits64*>(matrix + output * args.shape.inputs + input) = {{first, second}};
}

// A warp converts a chunk of a strip: x = eight chunks of the matrix, y = matrix.
template <weight_format Format>
__global__ void __launch_bounds__(dequantize_warps * 32) dequantize_kernel(dequantize_args args) {
  const std::size_t block = std::size_t{blockIdx.x} * dequantize_warps + warp_index();
  if (block >= args.shape.strips() * args.shape.chunks())
    return;
  const std::uint32_t index = args.wanted != nullptr ? args.wanted[blockIdx.y] : blockIdx.y;
  TROUPE_DEVICE_CHECK(index < args.num_matrices);
  const weight_matrix matrix = args.matrices[index];
  bfloat16* to = args.output + blockIdx.y * args.shape.outputs * args.shape.inputs;
  const unsigned lane = lane_index();
  const std::size_t output = block / args.shape.chunks() * strip_channels + lane_channel(lane, 0);
  const std::size_t chunk = block % args.shape.chunks() * chunk_inputs;
  const auto* pieces = static_cast<const bits128*>(matrix.weights);
  TROUPE_UNROLL
  for (unsigned half = 0; half < 2; ++half) {
    const std::size_t input = chunk + lane_input(lane, half);
    if constexpr (Format == weight_format::int8) {
      const bits128 words = load_once(pieces + (block * 2 + half) * warp_lanes + lane);
      TROUPE_UNROLL
      for (unsigned w = 0; w < 4; ++w)
        store_quad(args, to, output + 8 * (w % 2), input + 4 * (w / 2), int8_pair(words.word[w], 0),
                   int8_pair(words.word[w], 1));
    } else {
      const bits128 words = load_again(pieces + block * warp_lanes + lane);
      const std::uint32_t pair = int8_pair(matrix.group_scales[block * 8 + lane / 4], half);
      const int4_scale lower = int4_scale_of(both_lower(pair));
      const int4_scale upper = int4_scale_of(both_upper(pair));
      TROUPE_UNROLL
      for (unsigned step = 0; step < 2; ++step) {
        const std::uint32_t word = words.word[2 * half + step];
        store_quad(args, to, output, input + 4 * step, int4_pair(word, 0, lower), int4_pair(word, 1, lower));
        store_quad(args, to, output + 8, input + 4 * step, int4_pair(word, 2, upper),
                   int4_pair(word, 3, upper));
      }
    }
  }
}

template <weight_format Format>
void start(const stream& on, const dequantize_args& args) {
  launch("dequantize", on,
         {.blocks_x = (args.shape.strips() * args.shape.chunks() + dequantize_warps - 1) / dequantize_warps,
          .blocks_y = args.num_wanted,
          .threads = dequantize_warps * 32},
         dequantize_kernel<Format>, args);
}

} // namespace

void dequantize(const stream& on, const dequantize_args& args) {
  expect(args.num_wanted <= most_grid_yz, "cuda dequantize: too many matrices");
  expect(args.shape.format != weight_format::bf16, "cuda dequantize: the weights are bf16 already");
  if (args.shape.format == weight_format::int8)
    start<weight_format::int8>(on, args);
  else
    start<weight_format::int4>(on, args);
}

} // namespace troupe::kernels::cuda
