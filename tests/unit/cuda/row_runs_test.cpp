#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/row_runs.hpp"

namespace troupe::kernels::cuda {

TEST(row_runs, a_run_is_one_sequence_with_rising_positions) {
  const std::vector<std::uint32_t> sequences{0, 0, 0, 1, 1, 0, 2, 2};
  const std::vector<std::uint32_t> positions{4, 5, 7, 8, 9, 8, 3, 2};
  const std::vector<row_run> expected{{0, 2, 0, 4}, {2, 1, 0, 7}, {3, 2, 1, 8},
                                      {5, 1, 0, 8}, {6, 1, 2, 3}, {7, 1, 2, 2}};
  EXPECT_EQ(runs_of(sequences, positions, 8), expected);
}

TEST(row_runs, long_runs_are_cut) {
  const std::vector<std::uint32_t> sequences(5);
  const std::vector<std::uint32_t> positions{0, 1, 2, 3, 4};
  EXPECT_EQ(runs_of(sequences, positions, 2),
            (std::vector<row_run>{{0, 2, 0, 0}, {2, 2, 0, 2}, {4, 1, 0, 4}}));
  EXPECT_TRUE(runs_of({}, {}, 1).empty());
}

} // namespace troupe::kernels::cuda
