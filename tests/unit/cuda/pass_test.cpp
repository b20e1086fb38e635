// The working set of a micro-batch: what of it changes from step to step, and what it does where memory is
// scarce.
#include "kernels/model/cuda/cuda_pass.hpp"

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
    pass.assign(on, {{&row, 1}, tables}, block_tokens, 500 * block_tokens, 1);
    on.synchronize();
    EXPECT_GE(pass.table_width(), blocks);
    EXPECT_EQ(pass.block_tables()[blocks - 1], blocks - 1);
    widths.insert(pass.table_width());
  }
  EXPECT_EQ(widths, (std::set<std::size_t>{16, 32, 64, 128, 256, 512}));
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
