#include "actors/protocol/prefix_hash.hpp"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace troupe {
namespace {

std::vector<std::int32_t> counted(std::int32_t count) {
  std::vector<std::int32_t> result(static_cast<std::size_t>(count));
  std::iota(result.begin(), result.end(), 0);
  return result;
}

TEST(prefix_chain, names_are_equal_as_far_as_the_tokens_are) {
  auto tokens = counted(40);
  prefix_chain one{"", 8};
  one.extend(tokens);
  tokens[17] = 500;
  prefix_chain other{"", 8};
  other.extend(tokens);
  EXPECT_EQ(one.num_tokens(), 40U);
  EXPECT_EQ(one.name_of(16), other.name_of(16));
  for (std::uint32_t end = 24; end <= 40; end += 8)
    EXPECT_NE(one.name_of(end), other.name_of(end));
}

TEST(prefix_chain, grows_with_its_sequence) {
  const auto tokens = counted(21);
  prefix_chain whole{"", 4};
  whole.extend(tokens);
  prefix_chain grown{"", 4};
  for (std::size_t known = 1; known <= tokens.size(); ++known)
    grown.extend(std::span{tokens}.first(known));
  EXPECT_EQ(grown.num_tokens(), 20U);
  EXPECT_EQ(grown.name_of(20), whole.name_of(20));
}

TEST(prefix_chain, another_salt_gives_other_names) {
  const auto tokens = counted(16);
  prefix_chain one{"", 16};
  prefix_chain other{"tenant", 16};
  one.extend(tokens);
  other.extend(tokens);
  EXPECT_NE(one.name_of(16), other.name_of(16));
}

TEST(prefix_landmarks, are_four_of_each_doubling) {
  prefix_chain chain{"", 16};
  chain.extend(counted(16 * 40));
  std::vector<std::uint32_t> units;
  for (const auto& [hash, num_tokens] : landmarks_of(chain)) {
    EXPECT_EQ(hash, chain.name_of(num_tokens).low);
    units.push_back(num_tokens / 16);
  }
  EXPECT_EQ(units, (std::vector<std::uint32_t>{4, 5, 6, 7, 8, 10, 12, 14, 16, 20, 24, 28, 32, 40}));
}

TEST(prefix_landmarks, of_a_hundred_thousand_tokens_are_few) {
  std::uint32_t count = 0;
  for (std::uint32_t end = 16; end <= 100'000; end += 16)
    count += is_prefix_landmark(end, 16) ? 1 : 0;
  EXPECT_EQ(count, 43U);
}

} // namespace
} // namespace troupe
