// One lane's weights of a chunk of a strip, for products on the tensor cores.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/dequantize.hpp"
#include "kernels/cuda/fragments.hpp"
#include "kernels/cuda/memory.cuh"
#include "kernels/cuda/weights.hpp"

namespace troupe::kernels::cuda {

/// Filled from device memory (`load`) or from shared memory; `step` converts them to BF16, one step of the
/// instruction at a time, as its left operand.
template <weight_format Format>
struct lane_weights;

template <>
struct lane_weights<weight_format::bf16> {
  bits128 run[2][2]; // [channel][half]

  __device__ void load(const weight_shape& shape, const weight_matrix& matrix, std::size_t strip,
                       std::size_t chunk, unsigned lane) {
    TROUPE_UNROLL
    for (unsigned upper = 0; upper < 2; ++upper)
      TROUPE_UNROLL
    for (unsigned half = 0; half < 2; ++half) {
      const std::size_t output = strip * strip_channels + lane_channel(lane, upper);
      const std::size_t input = chunk * chunk_inputs + lane_input(lane, half);
      run[upper][half] = {};
      if (output < shape.outputs && input < shape.inputs)
        run[upper][half] =
            load_once(static_cast<const bfloat16*>(matrix.weights) + output * shape.inputs + input);
    }
  }

  __device__ void step(unsigned s, std::uint32_t (&a)[4]) const {
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      a[i] = run[i % 2][s / 2].word[s % 2 * 2 + i / 2];
  }
};

template <>
struct lane_weights<weight_format::int8> {
  bits128 half[2];

  __device__ void load(const weight_shape& shape, const weight_matrix& matrix, std::size_t strip,
                       std::size_t chunk, unsigned lane) {
    const auto* block = static_cast<const bits128*>(matrix.weights) + (strip * shape.chunks() + chunk) * 64;
    half[0] = load_once(block + lane);
    half[1] = load_once(block + 32 + lane);
  }

  __device__ void step(unsigned s, std::uint32_t (&a)[4]) const {
    TROUPE_UNROLL
    for (unsigned i = 0; i < 4; ++i)
      a[i] = int8_pair(half[s / 2].word[s % 2 * 2 + i % 2], i / 2);
  }
};

template <>
struct lane_weights<weight_format::int4> {
  bits128 words;
  std::uint32_t scales;

  __device__ void load(const weight_shape& shape, const weight_matrix& matrix, std::size_t strip,
                       std::size_t chunk, unsigned lane) {
    const std::size_t block = strip * shape.chunks() + chunk;
    words = load_once(static_cast<const bits128*>(matrix.weights) + block * 32 + lane);
    scales = matrix.group_scales[block * 8 + lane / 4];
  }

  __device__ void step(unsigned s, std::uint32_t (&a)[4]) const {
    const std::uint32_t pair = int8_pair(scales, s / 2); // of channels g and g + 8
    const int4_scale lower = int4_scale_of(both_lower(pair));
    const int4_scale upper = int4_scale_of(both_upper(pair));
    a[0] = int4_pair(words.word[s], 0, lower);
    a[1] = int4_pair(words.word[s], 2, upper);
    a[2] = int4_pair(words.word[s], 1, lower);
    a[3] = int4_pair(words.word[s], 3, upper);
  }
};

} // namespace troupe::kernels::cuda
