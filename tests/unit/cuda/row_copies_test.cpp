// Copies of rows to a device and back, in pieces.
#include "kernels/model/cuda/row_copies.hpp"

#include <cstddef>
#include <deque>
#include <gtest/gtest.h>
#include <utility>
#include <vector>

namespace troupe::model {
namespace {

namespace cuda = kernels::cuda;

constexpr std::size_t row_bytes = 8;

/// A batch of some experts whose computation copies the rows.
class row_copies_test : public testing::Test {
 protected:
  row_copies_test() {
    for (std::size_t expert = 0; expert < 6; ++expert)
      add_expert(expert, expert == 3 ? 0 : expert + 1);
  }

  void add_expert(std::size_t expert, std::size_t rows) {
    auto& in = inputs_.emplace_back();
    auto& out = outputs_.emplace_back();
    for (std::size_t r = 0; r < rows; ++r) {
      const auto& row = rows_.emplace_back(row_bytes, static_cast<std::byte>(16 * expert + r + 1));
      in.push_back(row.data());
      out.push_back(results_.emplace_back(row_bytes).data());
    }
    batch_.push_back({expert, in, out});
    num_rows_ += rows;
  }

  /// One piece for every two experts, or all at once.
  void run(row_copies& copies) {
    copies.begin(num_rows_, row_bytes);
    const bool at_once = copies.goes_at_once();
    std::size_t first = 0;
    std::size_t waiting = 0;
    for (std::size_t i = 0; i < batch_.size(); ++i) {
      copies.add(batch_[i]);
      waiting += batch_[i].inputs.size();
      if (at_once || i % 2 == 0)
        continue;
      compute_piece(copies, first, waiting);
      first += std::exchange(waiting, 0);
    }
    if (at_once)
      compute_piece(copies, 0, num_rows_);
    copies.finish();
  }

  void compute_piece(row_copies& copies, std::size_t first, std::size_t rows) {
    copies.send(compute_);
    compute_.copy_on_device(copies.outputs() + first * row_bytes, copies.inputs() + first * row_bytes,
                            rows * row_bytes);
    copies.fetch(compute_);
  }

  void expect_right() {
    EXPECT_TRUE(results_ == rows_);
    for (auto& result : results_)
      result.assign(row_bytes, std::byte{0});
  }

  std::deque<std::vector<std::byte>> rows_;
  std::deque<std::vector<std::byte>> results_;
  std::deque<std::vector<const std::byte*>> inputs_;
  std::deque<std::vector<std::byte*>> outputs_;
  std::vector<expert_rows> batch_;
  std::size_t num_rows_ = 0;
  cuda::stream compute_;
};

TEST_F(row_copies_test, each_row_finds_its_place_at_once_and_in_pieces) {
  for (const std::size_t piece_rows : {1, 3, 100}) {
    row_copies copies(piece_rows * row_bytes);
    for (int round = 0; round < 3; ++round) {
      run(copies);
      expect_right();
    }
  }
}

TEST_F(row_copies_test, large_batches_go_in_few_pieces_and_small_ones_at_once) {
  row_copies copies(10 * row_bytes);
  const auto rows_of_piece = [&](std::size_t rows) {
    copies.begin(rows, row_bytes);
    return copies.rows_of_piece();
  };
  EXPECT_EQ(rows_of_piece(1), 1U);
  EXPECT_EQ(rows_of_piece(19), 19U);
  EXPECT_EQ(rows_of_piece(20), 10U);
  EXPECT_EQ(rows_of_piece(41), 11U);
  EXPECT_EQ(rows_of_piece(1000), 250U);
}

TEST_F(row_copies_test, a_batch_that_ends_early_is_waited_for_and_harms_no_other) {
  row_copies copies(row_bytes);
  copies.begin(num_rows_, row_bytes);
  copies.add(batch_[0]);
  copies.send(compute_);
  compute_.synchronize();
  copies.wait();
  run(copies);
  expect_right();
}

} // namespace
} // namespace troupe::model
