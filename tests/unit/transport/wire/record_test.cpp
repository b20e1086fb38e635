#include "actors/transport/wire/record.hpp"

#include <gtest/gtest.h>

#include <stdexcept>

namespace troupe::wire {
namespace {

std::vector<std::byte> body_of(std::size_t num_bytes) {
  return std::vector<std::byte>(num_bytes, std::byte{3});
}

TEST(record_test, is_cut_out_of_a_stream_wherever_it_is_cut) {
  std::vector<std::byte> stream;
  for (const std::size_t size : {0UL, 5UL, 1000UL}) {
    const auto one = encode_record(record_type::heartbeat, body_of(size));
    stream.insert(stream.end(), one.begin(), one.end());
  }
  for (const std::size_t step : {1UL, 7UL, 13UL, 5000UL}) {
    record_reader reader;
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < stream.size(); at += step) {
      ASSERT_TRUE(reader.feed(std::span{stream}.subspan(at, std::min(step, stream.size() - at))));
      while (const auto rec = reader.next()) {
        EXPECT_EQ(rec->type, record_type::heartbeat);
        sizes.push_back(rec->body.size());
      }
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{0, 5, 1000}));
  }
}

TEST(record_test, refuses_other_protocols_at_the_first_bytes) {
  record_reader reader;
  const std::string http = "GET / HTTP/1.1\r\n";
  EXPECT_FALSE(reader.feed(std::as_bytes(std::span{http})));
  EXPECT_EQ(reader.error(), "not the rendezvous protocol");
  EXPECT_FALSE(reader.next());
}

TEST(record_test, names_both_versions) {
  auto bytes = encode_record(record_type::hello, body_of(32));
  bytes[4] = std::byte{protocol_version + 1};
  record_reader reader;
  EXPECT_FALSE(reader.feed(bytes));
  EXPECT_EQ(reader.error(), "the peer speaks protocol version " + std::to_string(protocol_version + 1)
                                + ", this process speaks " + std::to_string(protocol_version));
}

TEST(record_test, bounds_the_body_before_it_comes) {
  auto bytes = encode_record(record_type::hello, {});
  bytes[10] = std::byte{2}; // 128 KiB
  record_reader reader;
  EXPECT_FALSE(reader.feed(bytes));
  EXPECT_NE(reader.error().find("131072 bytes"), std::string::npos);
  EXPECT_THROW(encode_record(record_type::hello, body_of(max_record_body + 1)), std::length_error);
}

TEST(record_test, a_bad_second_record_does_not_spoil_the_first) {
  auto stream = encode_record(record_type::hello, body_of(4));
  stream.resize(stream.size() + 8);
  record_reader reader;
  EXPECT_TRUE(reader.feed(stream));
  EXPECT_TRUE(reader.next());
  EXPECT_FALSE(reader.next());
  EXPECT_FALSE(reader.error().empty());
}

TEST(byte_parser_test, reads_what_was_written_and_no_more) {
  byte_writer out;
  out.put8(7);
  out.put64(0x0102030405060708);
  out.put_string("text");
  byte_parser in{out.bytes()};
  EXPECT_EQ(in.take8(), 7);
  EXPECT_EQ(in.take64(), 0x0102030405060708U);
  EXPECT_EQ(in.take_string(4), "text");
  EXPECT_TRUE(in.complete());
  EXPECT_EQ(in.take8(), 0);
  EXPECT_TRUE(in.failed());
}

TEST(byte_parser_test, bounds_strings) {
  byte_writer out;
  out.put_string("text");
  byte_parser longer{out.bytes()};
  EXPECT_EQ(longer.take_string(3), "");
  EXPECT_TRUE(longer.failed());
  byte_parser cut{std::span{out.bytes()}.first(5)};
  EXPECT_EQ(cut.take_string(100), "");
  EXPECT_FALSE(cut.complete());
  EXPECT_THROW(out.put_string(std::string(70'000, 'x')), std::length_error);
}

} // namespace
} // namespace troupe::wire
