#include "kernels/cuda/fragments.hpp"

#include <set>

#include <gtest/gtest.h>

namespace troupe::kernels::cuda {

TEST(fragments, a_lane_finds_each_of_its_weights_where_place_of_says) {
  std::set<std::pair<unsigned, unsigned>> seen; // channel and input of a block of 16 × 64
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned upper = 0; upper < 2; ++upper)
      for (unsigned half = 0; half < 2; ++half)
        for (unsigned index = 0; index < lane_run; ++index) {
          const unsigned channel = lane_channel(lane, upper);
          const unsigned input = lane_input(lane, half) + index;
          seen.emplace(channel, input);
          const weight_place place = place_of(5 * strip_channels + channel, 7 * chunk_inputs + input);
          EXPECT_EQ(place.strip, 5U);
          EXPECT_EQ(place.chunk, 7U);
          EXPECT_EQ(place.lane, lane);
          EXPECT_EQ(place.upper, upper);
          EXPECT_EQ(place.half, half);
          EXPECT_EQ(place.index, index);
        }
  EXPECT_EQ(seen.size(), strip_channels * chunk_inputs);
}

TEST(fragments, a_step_takes_four_inputs_of_each_of_four_lanes) {
  for (unsigned step = 0; step < chunk_steps; ++step) {
    std::set<unsigned> inputs;
    for (unsigned lane = 0; lane < 4; ++lane)
      for (unsigned half = 0; half < 2; ++half)
        for (unsigned index = 0; index < lane_run; ++index)
          if (step_of(half, index) == step)
            inputs.insert(lane_input(lane, half) + index);
    EXPECT_EQ(inputs.size(), chunk_inputs / chunk_steps);
  }
}

TEST(fragments, results_are_16_channels_of_8_rows) {
  std::set<std::pair<unsigned, unsigned>> seen;
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned i = 0; i < 4; ++i)
      seen.emplace(result_channel(lane, i), result_row(lane, i));
  EXPECT_EQ(seen.size(), strip_channels * tile_rows);
  EXPECT_EQ(seen.rbegin()->first, strip_channels - 1);
}

} // namespace troupe::kernels::cuda
