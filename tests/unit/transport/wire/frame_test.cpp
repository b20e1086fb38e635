#include "actors/transport/wire/frame.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <vector>

namespace troupe::wire {
namespace {

constexpr std::uint64_t limit = 1 << 20;

frame_header sample() {
  frame_header x;
  x.kind = frame_kind::message;
  x.metadata_bytes = 5;
  x.token = 0x0102030405060708;
  x.sequence = 9;
  x.source = 10;
  x.destination = 11;
  x.message_id = 12;
  x.acknowledged_frames = 13;
  x.acknowledged_bytes = 14;
  x.rest_bytes = 0;
  return x;
}

std::vector<std::byte> encoded(const frame_header& x, std::size_t metadata_bytes) {
  std::vector<std::byte> result(frame_header_bytes + metadata_bytes);
  encode_frame(x, std::span{result}.first<frame_header_bytes>());
  return result;
}

TEST(frame_test, comes_back) {
  const auto bytes = encoded(sample(), 5);
  const auto x = decode_frame(bytes, 1000, limit);
  EXPECT_EQ(x.error, frame_error::none);
  EXPECT_EQ(x.header, sample());
  EXPECT_EQ(x.metadata.size(), 5U);
  EXPECT_EQ(x.metadata.data(), bytes.data() + frame_header_bytes);
  EXPECT_EQ(x.payload_offset, 0U);
}

// The first bytes of version 2 are final: a changed layout needs a new version.
TEST(frame_test, layout_is_fixed) {
  const auto bytes = encoded(sample(), 0);
  const std::array<unsigned, 32> expected{0x54, 0x52, 0x50, 0x46, 2, 1, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0,
                                          8,    7,    6,    5,    4, 3, 2, 1, 9, 0, 0, 0, 0, 0, 0, 0};
  for (std::size_t i = 0; i < expected.size(); ++i)
    EXPECT_EQ(std::to_integer<unsigned>(bytes[i]), expected[i]) << i;
  EXPECT_EQ(bytes.size(), 80U);
}

TEST(frame_test, metadata_in_the_data_is_padded) {
  auto header = sample();
  header.flags = metadata_in_data;
  header.metadata_bytes = 100;
  const auto bytes = encoded(header, 0);
  EXPECT_EQ(decode_frame(bytes, 128, limit).payload_offset, 128U);
  EXPECT_EQ(decode_frame(bytes, 127, limit).error, frame_error::bad_metadata_length);
  EXPECT_EQ(decode_frame(encoded(header, 1), 500, limit).error, frame_error::bad_metadata_length);
}

TEST(frame_test, refuses_what_is_wrong) {
  const auto good = encoded(sample(), 5);
  for (std::size_t length = 0; length < frame_header_bytes; ++length)
    EXPECT_EQ(decode_frame(std::span{good}.first(length), 0, limit).error, frame_error::truncated);
  EXPECT_EQ(decode_frame(std::span{good}.first(good.size() - 1), 0, limit).error,
            frame_error::bad_metadata_length);
  const auto with = [&good](std::size_t at, unsigned value) {
    auto bytes = good;
    bytes[at] = static_cast<std::byte>(value);
    return decode_frame(bytes, 0, limit).error;
  };
  EXPECT_EQ(with(0, 0), frame_error::bad_magic);
  EXPECT_EQ(with(4, 1), frame_error::bad_version);
  EXPECT_EQ(with(5, 0), frame_error::unknown_kind);
  EXPECT_EQ(with(5, 12), frame_error::unknown_kind);
  EXPECT_EQ(with(5, 9), frame_error::reserved_kind);
  EXPECT_EQ(with(5, 10), frame_error::reserved_kind);
  EXPECT_EQ(with(6, 8), frame_error::unknown_flags);
  EXPECT_EQ(with(12, 1), frame_error::unknown_flags);
  EXPECT_EQ(with(8, 6), frame_error::bad_metadata_length);
}

TEST(frame_test, only_bulk_goes_on_in_pieces) {
  auto first = sample();
  first.rest_bytes = 100;
  EXPECT_EQ(decode_frame(encoded(first, 5), 1000, limit).error, frame_error::bad_piece);
  first.flags = bulk_lane;
  EXPECT_EQ(decode_frame(encoded(first, 5), 1000, limit).error, frame_error::none);
  EXPECT_EQ(decode_frame(encoded(first, 5), 0, limit).error, frame_error::bad_piece);
  first.kind = frame_kind::resolve;
  EXPECT_EQ(decode_frame(encoded(first, 5), 1000, limit).error, frame_error::bad_piece);

  auto piece = sample();
  piece.kind = frame_kind::piece;
  piece.flags = bulk_lane;
  piece.metadata_bytes = 0;
  EXPECT_EQ(decode_frame(encoded(piece, 0), 1000, limit).error, frame_error::none);
  EXPECT_EQ(decode_frame(encoded(piece, 0), 0, limit).error, frame_error::bad_piece);
  piece.metadata_bytes = 5;
  EXPECT_EQ(decode_frame(encoded(piece, 5), 1000, limit).error, frame_error::bad_piece);
  piece.metadata_bytes = 0;
  piece.flags = 0;
  EXPECT_EQ(decode_frame(encoded(piece, 0), 1000, limit).error, frame_error::bad_piece);
}

TEST(frame_test, metadata_may_go_on_in_pieces) {
  auto header = sample();
  header.flags = bulk_lane | metadata_in_data;
  header.metadata_bytes = 5000;
  header.rest_bytes = 4056;
  const auto bytes = encoded(header, 0);
  EXPECT_EQ(decode_frame(bytes, 1000, limit).payload_offset, 5056U);
  EXPECT_EQ(decode_frame(bytes, 999, limit).error, frame_error::bad_metadata_length);
}

TEST(frame_test, bounds_the_size) {
  const auto bytes = encoded(sample(), 5);
  EXPECT_EQ(decode_frame(bytes, limit - bytes.size(), limit).error, frame_error::none);
  EXPECT_EQ(decode_frame(bytes, limit - bytes.size() + 1, limit).error, frame_error::too_large);
  EXPECT_EQ(decode_frame(bytes, UINT64_MAX, limit).error, frame_error::too_large);
  auto long_one = sample();
  long_one.flags = bulk_lane;
  long_one.rest_bytes = limit - bytes.size() - 99;
  EXPECT_EQ(decode_frame(encoded(long_one, 5), 100, limit).error, frame_error::too_large);
  long_one.rest_bytes = UINT64_MAX;
  EXPECT_EQ(decode_frame(encoded(long_one, 5), 100, limit).error, frame_error::too_large);
}

TEST(frame_test, a_bad_frame_still_names_its_connection) {
  auto bytes = encoded(sample(), 5);
  bytes[5] = std::byte{200};
  const auto x = decode_frame(bytes, 0, limit);
  EXPECT_EQ(x.error, frame_error::unknown_kind);
  EXPECT_EQ(x.header.token, sample().token);
}

TEST(frame_test, survives_noise) {
  std::mt19937_64 random{1};
  const auto good = encoded(sample(), 5);
  for (int round = 0; round < 20'000; ++round) {
    auto bytes = good;
    for (int i = 0; i < 4; ++i)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    bytes.resize(random() % (bytes.size() + 1));
    const auto x = decode_frame(bytes, random() % 4096, limit);
    if (x.error == frame_error::none)
      EXPECT_LE(x.metadata.size(), bytes.size());
  }
}

} // namespace
} // namespace troupe::wire
