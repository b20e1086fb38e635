// The working set of a micro-batch: its changes from step to step, and its behaviour when memory is scarce.
#include "kernels/model/cuda/cuda_pass.hpp"

#include "kernels/model/cuda/decode_buckets.hpp"
#include "kernels/model/cuda/growing_memory.hpp"
#include "tests/unit/cuda/emulated_room.hpp"

#include <cstddef>
#include <cstdint>
#include <gtest/gtest.h>
#include <numeric>
#include <set>
#include <span>
#include <vector>

namespace troupe::model {
namespace {

namespace cuda = kernels::cuda;

TEST(cuda_pass_test, tables_of_long_sequences_have_few_widths) {
  constexpr std::size_t block_tokens = 16;
  const cuda::stream on;
  std::set<std::size_t> widths;
  cuda_pass pass;
  for (std::size_t blocks = 1; blocks <= 500; blocks += 3) {
    std::vector<std::uint32_t> table(blocks);
    std::iota(table.begin(), table.end(), 0U);
    const std::span<const std::uint32_t> tables[]{table};
    const auto last = static_cast<std::uint32_t>(blocks * block_tokens - 1);
    const batch_row row{.token = 1, .position = last, .sequence = 0, .kv_slot = last};
    pass.assign(on, {{&row, 1}, tables}, block_tokens, 500 * block_tokens, 1, 0, true);
    on.synchronize();
    EXPECT_GE(pass.table_width(), blocks);
    EXPECT_EQ(pass.block_tables()[blocks - 1], blocks - 1);
    widths.insert(pass.table_width());
  }
  EXPECT_EQ(widths, (std::set<std::size_t>{16, 32, 64, 128, 256, 512}));
}

TEST(cuda_pass_test, decode_steps_of_many_sizes_have_few_numbers_of_rows) {
  constexpr std::size_t block_tokens = 16;
  const cuda::stream on;
  std::set<std::size_t> buckets;
  cuda_pass pass;
  const std::vector<std::uint32_t> table{3};
  const std::vector<std::span<const std::uint32_t>> tables(most_graph_rows + 1, table);
  std::vector<batch_row> rows;
  for (std::uint32_t count = 1; count <= most_graph_rows + 1; ++count) {
    rows.push_back({.token = 5, .position = 7, .sequence = count - 1, .kv_slot = 3 * block_tokens + 7});
    pass.assign(on, {rows, std::span(tables).first(count)}, block_tokens, 10 * block_tokens, 1, 0, true);
    on.synchronize();
    ASSERT_EQ(pass.is_decode_step(), count <= most_graph_rows);
    EXPECT_EQ(pass.num_given_rows(), count);
    EXPECT_EQ(pass.num_sequences(), pass.num_rows());
    EXPECT_EQ(pass.runs().size(), pass.num_rows());
    ASSERT_LE(pass.num_rows(), count + 3);
    std::set<std::uint32_t> slots;
    for (std::size_t r = count; r < pass.num_rows(); ++r) {
      EXPECT_EQ(pass.positions()[r], 0U);
      EXPECT_EQ(pass.slots()[r] / block_tokens, 10U) << "the block behind all others";
      EXPECT_TRUE(slots.insert(pass.slots()[r]).second);
      EXPECT_EQ(pass.block_tables()[pass.runs()[r].sequence * pass.table_width()], 10U);
    }
    if (pass.is_decode_step())
      buckets.insert(pass.num_rows());
  }
  EXPECT_EQ(buckets.size(), 18U) << "1, 2, and the multiples of 4 up to 64";
}

TEST(cuda_pass_test, only_decode_steps_are_padded_and_only_where_asked_for) {
  constexpr std::uint32_t block_tokens = 16;
  const cuda::stream on;
  cuda_pass pass;
  const std::vector<std::uint32_t> table{3};
  const std::vector<std::span<const std::uint32_t>> tables(3, table);
  std::vector<batch_row> rows;
  for (std::uint32_t r = 0; r < 3; ++r)
    rows.push_back({.token = 5, .position = r, .sequence = r, .kv_slot = 3 * block_tokens + r});
  const auto rows_of = [&](bool pads) {
    pass.assign(on, {rows, tables}, block_tokens, 10 * block_tokens, 4, 0, pads);
    on.synchronize();
    return pass.num_rows();
  };
  EXPECT_EQ(rows_of(true), 4U);
  EXPECT_EQ(rows_of(false), 3U);
  rows[1].sequence = 0; // a prompt of two tokens, and a sequence without a row
  EXPECT_EQ(rows_of(true), 3U);
  EXPECT_FALSE(pass.is_decode_step());
}

TEST(growing_memory_test, takes_just_what_is_needed_where_there_is_not_more) {
  constexpr std::size_t mebibyte = std::size_t{1} << 20;
  growing_device memory;
  {
    const test::emulated_room room(9 * mebibyte);
    EXPECT_NE(memory.reserve<std::byte>(8 * mebibyte), nullptr) << "10 MiB for the next time are too many";
    EXPECT_THROW(memory.reserve<std::byte>(10 * mebibyte), cuda::device_error);
    EXPECT_NE(memory.reserve<std::byte>(mebibyte), nullptr) << "the next one fits again";
  }
  EXPECT_NE(memory.reserve<std::byte>(10 * mebibyte), nullptr);
}

} // namespace
} // namespace troupe::model
