// Which weight and activation each lane holds when a warp multiplies on the tensor cores.
//
// The instruction is mma.m16n8k16 (PTX): 16 output channels of weights times 8 rows of activations, 16 inputs
// at a time. Weights are the left operand: on the other side, few rows would leave most of the 16 empty. A
// sum over inputs does not depend on which inputs come in which step, if weights and activations agree. So a
// chunk of 64 inputs (four steps) is distributed such that each lane holds runs of 8 adjacent inputs, 16
// bytes of BF16: one load.
//
//   lane        = 4 g + c     g: 0 … 7, c: 0 … 3
//   channels    g and g + 8 of a strip of 16
//   inputs      32 h + 8 c + i, h: 0, 1, i: 0 … 7, of a chunk of 64
//   step        2 h + i / 4 takes inputs i mod 4 = 0, 1 as its columns 2c, 2c + 1 and 2, 3 as 2c + 8, 2c + 9
//   result      channels g and g + 8 of rows 2c and 2c + 1
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/annotations.hpp"

namespace troupe::kernels::cuda {

/// Output channels of a strip: the work of one warp.
inline constexpr std::size_t strip_channels = 16;

/// Inputs of a chunk: four steps of the instruction.
inline constexpr std::size_t chunk_inputs = 64;
inline constexpr unsigned chunk_steps = 4;

/// Rows of activations of one instruction.
inline constexpr std::size_t tile_rows = 8;

/// Adjacent inputs of a lane: one load of BF16.
inline constexpr std::size_t lane_run = 8;

/// The strip's channel in a lane's lower (0) or upper (1) half.
TROUPE_BOTH constexpr unsigned lane_channel(unsigned lane, unsigned upper) {
  return lane / 4 + 8 * upper;
}

/// First input, in the chunk, of a lane's run `half` (0 or 1).
TROUPE_BOTH constexpr unsigned lane_input(unsigned lane, unsigned half) {
  return 32 * half + 8 * (lane % 4);
}

/// The row whose activations a lane loads.
TROUPE_BOTH constexpr unsigned lane_row(unsigned lane) {
  return lane / 4;
}

/// Channel and row of result `i` (0 … 3) of a lane.
TROUPE_BOTH constexpr unsigned result_channel(unsigned lane, unsigned i) {
  return lane / 4 + 8 * (i / 2);
}

TROUPE_BOTH constexpr unsigned result_row(unsigned lane, unsigned i) {
  return 2 * (lane % 4) + i % 2;
}

/// Place of a weight: its strip, chunk and lane, and its index in one of the lane's runs.
struct weight_place {
  std::size_t strip;
  std::size_t chunk;
  unsigned lane;
  unsigned upper; ///< channel of the lane: 0 or 1
  unsigned half;  ///< run of the lane: 0 or 1
  unsigned index; ///< in the run: 0 to 7
};

TROUPE_BOTH constexpr weight_place place_of(std::size_t output, std::size_t input) {
  const auto channel = static_cast<unsigned>(output % strip_channels);
  const auto k = static_cast<unsigned>(input % chunk_inputs);
  return {output / strip_channels,
          input / chunk_inputs,
          channel % 8 * 4 + k % 32 / 8,
          channel / 8,
          k / 32,
          k % 8};
}

/// Step of the instruction that uses element `index` of run `half`, and the pair of inputs in it (0 or 1).
TROUPE_BOTH constexpr unsigned step_of(unsigned half, unsigned index) {
  return 2 * half + index / 4;
}

TROUPE_BOTH constexpr unsigned pair_of(unsigned index) {
  return index % 4 / 2;
}

} // namespace troupe::kernels::cuda
