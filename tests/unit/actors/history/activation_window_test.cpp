// Windows of activations as bytes: valid ones are unchanged by a round trip, others are errors.
#include "actors/protocol/activation_window.hpp"

#include <random>
#include <stdexcept>

#include <gtest/gtest.h>

namespace troupe {
namespace {

activation_window window_of(std::vector<std::vector<std::uint64_t>> rows) {
  return {5000, {17, 3, std::move(rows)}};
}

void expect_round_trip(const activation_window& window) {
  EXPECT_EQ(decode_window(encode(window), shape_of(window.counts)), window);
}

TEST(activation_window_test, comes_back_from_its_bytes) {
  expect_round_trip(window_of({{}, {0, 0, 0, 0}, {}, {0, 7, 0, 0, 0, 300}, {1, 2, 3}, {0}}));
  expect_round_trip({max_window_ms,
                     {max_window_number, max_window_number, {{max_window_number, 0, 0}, {127, 128, 16384}}}});
  std::mt19937 random{7};
  for (int round = 0; round < 200; ++round) {
    auto window = window_of({});
    for (auto layers = 1 + random() % 6; layers > 0; --layers) {
      auto& layer = window.counts.rows.emplace_back(random() % 40);
      const auto sparsity = 1 + random() % 10;
      for (auto& rows : layer)
        rows = random() % sparsity == 0 ? random() % (std::uint64_t{1} << random() % 30) : 0;
    }
    expect_round_trip(window);
  }
}

TEST(activation_window_test, is_small) {
  auto window = window_of(std::vector<std::vector<std::uint64_t>>(60, std::vector<std::uint64_t>(256)));
  const auto empty = encode(window).size();
  EXPECT_EQ(empty, 4U + 60 * 2);
  for (auto& layer : window.counts.rows)
    layer[200] = layer[100] = 5;
  EXPECT_EQ(encode(window).size(), empty + 60 * 4U);
  for (auto& layer : window.counts.rows)
    layer.assign(256, 100);
  EXPECT_EQ(encode(window).size(), 4U + 60 * 257);
}

TEST(activation_window_test, numbers_above_their_bound_are_written_as_that) {
  const activation_window window{~0ULL, {~0ULL, ~0ULL, {{~0ULL}}}};
  const activation_window bounded{max_window_ms,
                                  {max_window_number, max_window_number, {{max_window_number}}}};
  EXPECT_EQ(decode_window(encode(window), {1}), bounded);
}

TEST(activation_window_test, every_part_of_it_is_an_error) {
  const auto window = window_of({{0, 0, 0, 9}, {1, 2, 3}});
  const auto bytes = encode(window);
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(decode_window(bytes.substr(0, length), {4, 3}), std::runtime_error) << length;
  EXPECT_THROW(decode_window(bytes + '\0', {4, 3}), std::runtime_error);
  EXPECT_THROW(decode_window(bytes, {3, 3}), std::runtime_error) << "a layer without its last expert";
  EXPECT_THROW(decode_window(bytes, {4}), std::runtime_error);
  EXPECT_THROW(decode_window(bytes, {4, 3, 1}), std::runtime_error);
}

TEST(activation_window_test, hostile_bytes_are_an_error) {
  using namespace std::string_literals;
  for (const auto& bytes : {
           "\x01\x01\x01\x02"s,                                                 // an unknown form
           "\x01\x01\x01\x00\x01\x04\x01"s,                                     // an expert behind the last
           "\x01\x01\x01\x00\x05\x00\x01\x00\x01\x00\x01\x00\x01\x00\x01"s,     // more experts than there are
           "\x01\x01\x01\x00\x02\x80\x80\x80\x80\x80\x20\x01\x00\x01"s,         // a gap of 2^40
           "\x01\x01\x01\x00\x01\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"s, // 2^64 - 1 rows
           "\x01\x01\x01\x00\x01\x00\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80"s, // a number without an end
           "\x81\x80\x80\x80\x80\x10\x01\x01\x00\x00"s,                         // a duration above its bound
       })
    EXPECT_THROW(decode_window(bytes, {4}), std::runtime_error) << testing::PrintToString(bytes);
  std::mt19937 random{11};
  const auto sound = encode(window_of({{0, 0, 0, 9}, {1, 2, 3, 70000}}));
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = sound;
    for (auto changes = 1 + random() % 3; changes > 0; --changes)
      bytes[random() % bytes.size()] = static_cast<char>(random());
    try { // any accepted window has the right shape and numbers within bounds
      const auto window = decode_window(bytes, {4, 4});
      ASSERT_EQ(shape_of(window.counts), (std::vector<std::uint32_t>{4, 4}));
      ASSERT_LE(num_rows(window.counts), 8 * max_window_number);
      ASSERT_LE(window.duration_ms, max_window_ms);
    } catch (const std::runtime_error&) {
    }
  }
}

TEST(activation_window_test, is_what_was_counted_between_two_looks) {
  const activation_counts before{3, 1, {{1, 0}, {}, {5}}};
  const activation_counts after{10, 5, {{4, 2}, {}, {5}}};
  EXPECT_EQ(counts_between(before, after), (activation_counts{7, 4, {{3, 2}, {}, {0}}}));
  EXPECT_EQ(counts_between({}, after), after) << "the first look";
  EXPECT_EQ(num_rows(after), 11U);
}

TEST(activation_window_test, no_model_has_a_shape_that_fills_the_memory) {
  EXPECT_EQ(shape_flaw_of({8, 0, 8}), "");
  EXPECT_EQ(shape_flaw_of(std::vector<std::uint32_t>(60, 256)), "");
  EXPECT_NE(shape_flaw_of({}), "");
  EXPECT_NE(shape_flaw_of({0, 0}), "");
  EXPECT_NE(shape_flaw_of({0xffffffff, 0xffffffff}), "");
  EXPECT_NE(shape_flaw_of(std::vector<std::uint32_t>(max_history_layers + 1, 1)), "");
}

} // namespace
} // namespace troupe
