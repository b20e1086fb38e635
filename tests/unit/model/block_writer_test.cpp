#include "kernels/model/block_writer.hpp"

#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace troupe::model {
namespace {

constexpr std::size_t block = block_writer::block_bytes;

/// What a writer passed on: a file's bytes, and each call's offset and size.
struct passed_on {
  std::vector<std::byte> bytes;
  std::vector<std::pair<std::uint64_t, std::size_t>> calls;

  block_writer::sink sink() {
    return [this](std::uint64_t offset, std::span<const std::byte> some) {
      ASSERT_EQ(offset, bytes.size()) << "front to back";
      bytes.insert(bytes.end(), some.begin(), some.end());
      calls.emplace_back(offset, some.size());
    };
  }
};

std::vector<std::byte> numbered(std::size_t count, unsigned begin) {
  std::vector<std::byte> bytes(count);
  for (std::size_t i = 0; i < count; ++i)
    bytes[i] = static_cast<std::byte>((i * 7 + begin) % 251);
  return bytes;
}

TEST(block_writer, passes_on_what_was_appended_in_whole_blocks) {
  passed_on file;
  block_writer writer(file.sink());
  std::vector<std::byte> expected;
  unsigned begin = 0;
  for (const std::size_t size : {std::size_t{1}, block - 1, block, std::size_t{300'000}, 3 * block + 5,
                                 std::size_t{0}, block - 300'005, 2 * block, std::size_t{77}}) {
    const auto some = numbered(size, ++begin);
    expected.insert(expected.end(), some.begin(), some.end());
    writer.append(some);
    EXPECT_EQ(writer.end(), expected.size());
  }
  for (const auto& [offset, size] : file.calls) {
    EXPECT_EQ(offset % block, 0U);
    EXPECT_EQ(size % block, 0U);
  }
  EXPECT_EQ(file.bytes.size(), expected.size() / block * block);
  writer.flush();
  EXPECT_TRUE(file.bytes == expected);
  EXPECT_EQ(file.calls.back(),
            std::pair(std::uint64_t{expected.size() / block * block}, expected.size() % block));
}

TEST(block_writer, pads_with_zeros) {
  passed_on file;
  block_writer writer(file.sink());
  writer.pad_to(4096);
  const auto some = numbered(100, 1);
  writer.append(some);
  writer.pad_to(writer.end());
  writer.pad_to(block + 5000);
  EXPECT_EQ(writer.end(), block + 5000);
  writer.flush();
  ASSERT_EQ(file.bytes.size(), block + 5000);
  EXPECT_EQ(std::memcmp(file.bytes.data() + 4096, some.data(), some.size()), 0);
  for (std::size_t i = 0; i < file.bytes.size(); ++i)
    ASSERT_TRUE((i >= 4096 && i < 4196) || file.bytes[i] == std::byte{0}) << i;
}

TEST(block_writer, of_nothing_writes_nothing) {
  passed_on file;
  block_writer writer(file.sink());
  writer.append({});
  writer.pad_to(0);
  writer.flush();
  EXPECT_TRUE(file.calls.empty());
  EXPECT_EQ(writer.end(), 0U);
}

TEST(block_writer, passes_on_what_the_sink_throws) {
  block_writer writer(
      [](std::uint64_t, std::span<const std::byte>) { throw std::runtime_error("disk full"); });
  writer.append(numbered(10, 0));
  EXPECT_THROW(writer.append(numbered(block, 0)), std::runtime_error);
}

} // namespace
} // namespace troupe::model
