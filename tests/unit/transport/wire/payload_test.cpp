#include "actors/transport/wire/payload.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <stdexcept>
#include <vector>

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/binary_deserializer.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/message.hpp>
#include <caf/sec.hpp>

#include "actors/transport/wire/wire_context.hpp"

namespace troupe {
namespace {

payload counting(std::size_t num_bytes) {
  auto result = payload::allocate(num_bytes);
  for (std::size_t i = 0; i < num_bytes; ++i)
    result.mutable_data()[i] = static_cast<std::byte>(i);
  return result;
}

TEST(payload_test, nothing_needs_no_buffer) {
  const auto x = payload::allocate(0);
  EXPECT_TRUE(x.empty());
  EXPECT_EQ(x.data(), nullptr);
  EXPECT_EQ(x, payload{});
}

TEST(payload_test, copies_share_until_one_writes) {
  auto x = counting(100);
  auto y = x;
  EXPECT_EQ(x.data(), y.data());
  y.mutable_data()[0] = std::byte{99};
  EXPECT_NE(x.data(), y.data());
  EXPECT_EQ(x.data()[0], std::byte{0});
  EXPECT_NE(x, y);
  const auto* before = y.data();
  y.mutable_data()[1] = std::byte{98};
  EXPECT_EQ(y.data(), before);
}

TEST(payload_test, equality_is_by_content) {
  EXPECT_EQ(counting(64), counting(64));
  EXPECT_NE(counting(64), counting(65));
  EXPECT_EQ(counting(64), counting(65).slice(0, 64));
}

TEST(payload_test, slices_share_and_stay_inside) {
  const auto x = counting(100);
  const auto y = x.slice(10, 20);
  EXPECT_EQ(y.data(), x.data() + 10);
  EXPECT_EQ(y.slice(5, 5).data()[0], std::byte{15});
  EXPECT_TRUE(x.slice(100, 0).empty());
  EXPECT_THROW(x.slice(101, 0), std::out_of_range);
  EXPECT_THROW(x.slice(50, 51), std::out_of_range);
  EXPECT_THROW(x.slice(1, SIZE_MAX), std::out_of_range);
}

class payload_message_test : public testing::Test {
 protected:
  struct config : caf::actor_system_config {
    config() { add_message_types<caf::id_block::troupe_transport>(); }
  };

  config cfg;
  caf::actor_system sys{cfg};
};

TEST_F(payload_message_test, is_written_in_line_outside_of_the_wire) {
  std::vector<char> bytes;
  caf::binary_serializer sink{sys, bytes};
  auto message = caf::make_message(counting(300), payload{}, counting(2'500'000));
  ASSERT_FALSE(sink(message));
  EXPECT_GT(bytes.size(), 2'500'300U);
  caf::message back;
  caf::binary_deserializer source{sys, bytes};
  ASSERT_FALSE(source(back));
  EXPECT_EQ(back.get_as<payload>(0), counting(300));
  EXPECT_TRUE(back.get_as<payload>(1).empty());
  EXPECT_EQ(back.get_as<payload>(2), counting(2'500'000));
}

TEST_F(payload_message_test, a_length_that_lies_is_an_error_and_allocates_little) {
  std::vector<char> bytes;
  caf::binary_serializer sink{sys, bytes};
  std::uint64_t claim = std::uint64_t{1} << 39;
  ASSERT_FALSE(sink(claim));
  bytes.resize(bytes.size() + 100);
  payload x;
  caf::binary_deserializer source{sys, bytes};
  EXPECT_TRUE(source(x));
  EXPECT_TRUE(x.empty());
}

TEST_F(payload_message_test, travels_out_of_band_on_the_wire) {
  wire_context out{&sys};
  std::vector<char> metadata;
  caf::binary_serializer sink{&out, metadata};
  const auto first = counting(70);
  const auto second = counting(1'000'000);
  auto message = caf::make_message(first, second);
  ASSERT_FALSE(sink(message));
  EXPECT_LT(metadata.size(), 200U);
  ASSERT_EQ(out.attached().size(), 2U);
  // No copy was made.
  EXPECT_EQ(out.attached()[1].data(), second.data());

  auto arrived = payload::allocate(128 + second.size());
  std::memcpy(arrived.mutable_data(), first.data(), 70);
  std::memcpy(arrived.mutable_data() + 128, second.data(), second.size());
  wire_context in{&sys};
  in.arrived(arrived);
  caf::binary_deserializer source{&in, metadata};
  caf::message back;
  ASSERT_FALSE(source(back));
  EXPECT_EQ(back.get_as<payload>(0), first);
  EXPECT_EQ(back.get_as<payload>(1), second);
  EXPECT_EQ(back.get_as<payload>(1).data(), arrived.data() + 128);

  // Fewer bytes than the metadata claims.
  wire_context poor{&sys};
  poor.arrived(arrived.slice(0, 1000));
  caf::binary_deserializer again{&poor, metadata};
  caf::message partial;
  EXPECT_EQ(partial.load(again), caf::sec::end_of_stream);
}

} // namespace
} // namespace troupe
